// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxSocketPath is the length of the longest path of a unix socket.
const maxSocketPath = 107

// ErrSocketPath means a path that is too long for a unix socket.
var ErrSocketPath = errors.New("the path is too long for a unix socket")

// ErrSocketInUse means that another program answers on a socket.
var ErrSocketInUse = errors.New("another agent answers on the socket")

// Listen listens on a unix socket. The user of this process can connect, and the members of the group
// if the group exists. The folder is created if it is missing. A socket without a listener is
// replaced. Access to the socket is permission to run commands in every container.
func Listen(path, group string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s: %w: %d characters at most", path, ErrSocketPath, maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrSocketInUse)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Until here the socket has the mode of the umask. Peers checks every connection besides.
	err = os.Chmod(path, 0o600)
	if found, lookup := user.LookupGroup(group); err == nil && lookup == nil && group != "" {
		if gid, number := strconv.Atoi(found.Gid); number == nil && os.Chown(path, -1, gid) == nil {
			err = os.Chmod(path, 0o660)
		}
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Peer is the process at the other end of a unix socket, as the kernel tells.
type Peer struct{ UID, GID uint32 }

// peerKey is the key of a Peer in the context of a request.
type peerKey struct{}

// Serve serves a listener until ctx ends. The requests of a unix socket have a Peer for Peers. The
// caller ends connections that were upgraded.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if peer, err := peerOf(conn); err == nil {
				return context.WithValue(ctx, peerKey{}, peer)
			}
			return ctx
		},
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	err := server.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("localapi: %w", err)
}

// Peers lets only root, the own user and members of a group pass. The group may be "" or unknown.
func Peers(group string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, known := r.Context().Value(peerKey{}).(Peer)
		if known && allowed(peer, group) {
			next.ServeHTTP(w, r)
			return
		}
		want := "want root or user " + strconv.Itoa(os.Getuid())
		if group != "" {
			want += ", or a member of group " + group
		}
		refuse(w, apierrors.NewForbidden(v1.Resource("pods"), "", fmt.Errorf("user %d may not use the agent: %s", peer.UID, want)))
	})
}

// allowed decides about a peer.
func allowed(peer Peer, group string) bool {
	if peer.UID == 0 || int(peer.UID) == os.Getuid() {
		return true
	}
	found, err := user.LookupGroup(group)
	if group == "" || err != nil {
		return false
	}
	if found.Gid == strconv.FormatUint(uint64(peer.GID), 10) {
		return true
	}
	member, err := user.LookupId(strconv.FormatUint(uint64(peer.UID), 10))
	if err != nil {
		return false
	}
	groups, err := member.GroupIds()
	return err == nil && slices.Contains(groups, found.Gid)
}
