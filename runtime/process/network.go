// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/pasta"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// resolvFile is the file in a sandbox's folder that is /etc/resolv.conf in its containers, if the
// host's file names a server that no pod reaches.
const resolvFile = "resolv.conf"

const hostResolv = "/etc/resolv.conf"

var _ runtime.PodDialer = (*Runtime)(nil)

// hasNetwork reports whether a pod has a network namespace of its own.
func (r *Runtime) hasNetwork(pod *v1.Pod) bool {
	return r.pasta != "" && pod != nil && !pod.Spec.HostNetwork
}

// openNetwork makes the network of a sandbox that was just made. The sandbox is not usable before.
func (r *Runtime) openNetwork(ctx context.Context, key sandboxKey, pod *v1.Pod) error {
	s, err := r.openSandbox(key.id())
	if err != nil {
		return err
	}
	defer s.close()
	raw, _ := os.ReadFile(hostResolv) // a pod of a host without name servers has none
	text, resolve := pasta.ResolvConf(string(raw))
	if resolve {
		if err := s.dir.WriteFile(resolvFile, []byte(text), 0o644); err != nil {
			return err
		}
	}
	keeper, inside, err := r.keepNetwork(ctx, s, append([]string{r.pasta}, pasta.Args(pod, r.hostIPs, resolve)...))
	if err != nil {
		return fmt.Errorf("pod network: %w", err)
	}
	n := record.Network{Keeper: keeper, Inside: inside}
	if err := errors.Join(ctx.Err(), record.Write(s.dir, record.NetworkFile, n)); err != nil {
		return errors.Join(err, s.endNetwork(context.WithoutCancel(ctx)))
	}
	return nil
}

// keepNetwork starts the process that keeps the network of a sandbox, and returns when the network is ready,
// or when ctx has ended.
func (r *Runtime) keepNetwork(ctx context.Context, s *sandbox, command []string) (keeper, inside proc.Ref, err error) {
	program, err := r.shimProgram()
	if err != nil {
		return keeper, inside, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return keeper, inside, err
	}
	defer null.Close()
	hear, say, err := os.Pipe()
	if err != nil {
		return keeper, inside, err
	}
	defer hear.Close()
	users, err := json.Marshal(record.Users{Own: r.host.OwnUser(), IDs: s.rec.IDs})
	if err != nil {
		return keeper, inside, err
	}
	path := filepath.Join(r.root, s.key.dir())
	// In the order of record.LockFD, of which there is none, and record.StatusFD.
	p, err := os.StartProcess(program, append([]string{record.NetworkName, path, string(users)}, command...), &os.ProcAttr{
		Dir: path, Env: shimEnvironment(), Files: []*os.File{null, null, null, null, say}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	_ = say.Close()
	if err != nil {
		return keeper, inside, fmt.Errorf("start the shim: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Kill() }) // which kills the other processes
	pid, err := listen(hear)
	if !stop() && err != nil {
		err = context.Cause(ctx)
	}
	var about [2]proc.Info
	if err == nil {
		about[0], err = proc.Lookup(p.Pid)
	}
	if err == nil {
		about[1], err = proc.Lookup(pid)
	}
	if err != nil {
		_ = p.Kill()
		_, _ = p.Wait()
		return keeper, inside, err
	}
	return about[0].Ref, about[1].Ref, p.Release()
}

// isKeeper recognizes the process that keeps the sandbox's network by the arguments.
func (s *sandbox) isKeeper(args []string) bool {
	return isAnyKeeper(args) && strings.HasSuffix(args[1], string(filepath.Separator)+s.key.dir())
}

func isAnyKeeper(args []string) bool { return len(args) > 3 && args[0] == record.NetworkName }

// network returns the processes of the sandbox's network, which live, or an error.
func (s *sandbox) network() (n record.Network, err error) {
	n, err = record.Read[record.Network](s.dir, record.NetworkFile)
	if err == nil && !proc.Is(n.Keeper, s.isKeeper) {
		proc.Reap(n.Keeper.PID, record.NetworkName)
		err = errors.New("the network of the sandbox has ended")
	}
	return n, err
}

// join makes a container a member of the sandbox's network, and of its users.
func (s *sandbox) join(rec *record.Spec) error {
	if rec.Root == nil {
		return nil
	}
	if rec.Root.IDs = s.rec.IDs; !rec.Root.MapsIDs() {
		rec.Root.Owners = nil // every file belongs to the only user
	}
	if !s.rec.Network {
		return nil
	}
	n, err := s.network()
	if err != nil {
		return err
	}
	rec.Root.Network = &n.Inside
	if _, err := s.dir.Lstat(resolvFile); err == nil {
		rec.Root.Resolve(filepath.Join(s.dir.Name(), resolvFile))
	}
	return nil
}

// endNetwork ends the network of the sandbox.
func (s *sandbox) endNetwork(ctx context.Context) error {
	if !s.rec.Network {
		return nil
	}
	n, _ := record.Read[record.Network](s.dir, record.NetworkFile) // without a record, all processes are searched
	h, err := proc.Hold(n.Keeper, s.isKeeper)
	if errors.Is(err, os.ErrProcessDone) {
		proc.Reap(n.Keeper.PID, record.NetworkName)
		return nil
	}
	if err != nil {
		return err
	}
	return endShim(ctx, h, 0)
}

// watchNetwork adds the network of a sandbox to the running Watch.
func (r *Runtime) watchNetwork(s *sandbox) {
	if n, err := record.Read[record.Network](s.dir, record.NetworkFile); err == nil {
		r.watchProcess(string(s.key.id()), n.Keeper, s.isKeeper)
	}
}

// DialPod implements runtime.PodDialer. The connection begins in the pod's network namespace if the pod
// has one.
func (r *Runtime) DialPod(ctx context.Context, uid types.UID, network, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: -1}
	inside, err := r.networkOf(uid)
	if err != nil {
		return nil, err
	}
	if inside.PID != 0 {
		dialer.Control = func(network, _ string, c syscall.RawConn) error { return r.moveInside(inside, network, c) }
	}
	return dialer.DialContext(ctx, network, address)
}

// networkOf returns a process in the network namespace of a pod. It is zero for a pod on the host's network.
func (r *Runtime) networkOf(uid types.UID) (inside proc.Ref, err error) {
	keys, err := r.sandboxes(uid)
	if err != nil {
		return inside, err
	}
	var newest time.Time
	for _, key := range keys {
		s, opened := r.openSandbox(key.id())
		if opened != nil {
			continue // it is being removed
		}
		if s.rec.Network && s.rec.CreatedAt.After(newest) {
			var n record.Network
			n, err = s.network()
			inside, newest = n.Inside, s.rec.CreatedAt
		}
		s.close()
	}
	return inside, err
}
