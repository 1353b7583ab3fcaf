// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/tree"
)

// Permissions of created files and directories, as the kubelet's.
const (
	dirMode     = 0o750
	logDirMode  = 0o755
	hostsMode   = 0o644
	messageMode = 0o666 // any user of the container may write
)

// files manages the agent's files for pods, below root:
//
//	pods/<uid>/etc-hosts
//	pods/<uid>/containers/<name>/<8 hex digits>  a termination message
//	keelson/stopped/<container ID>               see stop.go
//
// No text of a manifest leads out of root.
type files struct{ root string }

const stoppedDir = "keelson/stopped"

// open opens root, and creates root if missing.
func (f files) open() (*os.Root, error) {
	if err := os.MkdirAll(f.root, dirMode); err != nil {
		return nil, err
	}
	return os.OpenRoot(f.root)
}

// podDir returns pods/<uid>, if uid can be the name of a directory.
func podDir(uid types.UID) (string, error) {
	if err := checkElement(string(uid)); err != nil {
		return "", fmt.Errorf("the pod's uid %w", err)
	}
	return "pods/" + string(uid), nil
}

// checkElement refuses a string unless s is exactly one element of a path.
func checkElement(s string) error {
	if s == "" || s == "." || s == ".." || len(s) > 255 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' }) {
		return fmt.Errorf("%q makes no file name", s)
	}
	return nil
}

// makeMessage creates an empty file for a container's termination message and returns the file's
// path.
func (f files) makeMessage(uid types.UID, container string) (string, error) {
	dir, err := podDir(uid)
	if err != nil {
		return "", err
	}
	if err := checkElement(container); err != nil {
		return "", fmt.Errorf("the container's name %w", err)
	}
	root, err := f.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	dir += "/containers/" + container
	if err := root.MkdirAll(dir, dirMode); err != nil {
		return "", err
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	name := dir + "/" + hex.EncodeToString(random[:])
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, messageMode)
	if err != nil {
		return "", err
	}
	// The mode above is subject to the umask.
	return filepath.Join(f.root, name), errors.Join(file.Chmod(messageMode), file.Close())
}

// messagePath returns the part of hostPath below root if hostPath is a termination message.
func (f files) messagePath(hostPath string) (string, bool) {
	name, err := filepath.Rel(f.root, hostPath)
	if err != nil {
		return "", false
	}
	part := strings.Split(filepath.ToSlash(name), "/")
	return name, len(part) == 5 && part[0] == "pods" && part[2] == "containers"
}

// removeMessage removes a termination message, and its directory if empty. Other paths are left
// alone.
func (f files) removeMessage(hostPath string) error {
	name, ok := f.messagePath(hostPath)
	if !ok {
		return nil
	}
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = root.Remove(filepath.Dir(name)) // not empty: a sibling's
	return nil
}

// writeHosts writes text to the pod's hosts file and returns the file's path. The file is rewritten
// in place, because running containers have the file mounted.
func (f files) writeHosts(uid types.UID, text string) (string, error) {
	dir, err := podDir(uid)
	if err != nil {
		return "", err
	}
	root, err := f.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.MkdirAll(dir, dirMode); err != nil {
		return "", err
	}
	name := dir + "/etc-hosts"
	if old, err := root.ReadFile(name); err != nil || !bytes.Equal(old, []byte(text)) {
		if err := root.WriteFile(name, []byte(text), hostsMode); err != nil {
			return "", err
		}
		if err := root.Chmod(name, hostsMode); err != nil {
			return "", err
		}
	}
	return filepath.Join(f.root, name), nil
}

// removePod removes the files made for the pod. Other content of the directory, such as volumes,
// stays.
func (f files) removePod(uid types.UID) error {
	dir, err := podDir(uid)
	if err != nil {
		return nil // nothing was ever made
	}
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(dir + "/etc-hosts"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := tree.RemoveAll(root, dir+"/containers"); err != nil {
		return err
	}
	if err := root.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	return nil
}

// markStopped records that a created container must never be started.
func (f files) markStopped(id string) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(stoppedDir, dirMode); err != nil {
		return err
	}
	return root.WriteFile(stoppedDir+"/"+id, nil, 0o600)
}

func (f files) isStopped(id string) (bool, error) {
	_, err := os.Lstat(filepath.Join(f.root, stoppedDir, id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// unmarkAll removes the marks of all containers not in ids, except marks newer than since.
func (f files) unmarkAll(ids map[string]bool, since time.Time) {
	entries, _ := os.ReadDir(filepath.Join(f.root, stoppedDir))
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && !ids[e.Name()] && info.ModTime().Before(since.Add(-time.Second)) {
			_ = f.unmarkStopped(e.Name()) // tried again at the next listing
		}
	}
}

func (f files) unmarkStopped(id string) error {
	err := os.Remove(filepath.Join(f.root, stoppedDir, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
