// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// insideVariable is set in the process that has its own namespaces.
const insideVariable = "KEELSON_CONFORMANCE_INSIDE"

// errInside is returned if the process in the namespace failed. That process has printed the
// reason.
var errInside = errors.New("failed")

// hidden are folders that a kubelet uses regardless of its configuration.
var hidden = []string{"/var/log/containers", "/var/log/pods", "/var/lib/kubelet", "/usr/libexec/kubernetes", "/etc/kubernetes", "/etc/containerd", "/var/run/cdi"}

// enterNamespace runs the command again in a mount namespace and a network namespace: all mounts and
// all packet filters of the cluster vanish with the namespaces, and the folders that a kubelet uses
// are empty there. enterNamespace returns true in the process inside.
//
// For the specs of nodes there is a cgroup namespace, too: these specs look for the cgroups of pods
// below the root.
func enterNamespace(ctx context.Context, ownCgroups bool) (_ bool, err error) {
	if os.Getenv(insideVariable) != "" {
		err := errors.Join(prepareNamespace(), prepareNetwork(ctx))
		if ownCgroups && err == nil {
			err = mountCgroups()
		}
		return true, err
	}
	flags := uintptr(syscall.CLONE_NEWNS | syscall.CLONE_NEWNET)
	if ownCgroups {
		flags |= syscall.CLONE_NEWCGROUP
		leave, err := enterCgroup()
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, leave()) }()
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Minute
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = errInside
	}
	return false, err
}

// prepareNamespace makes mounts propagate within the namespace, because volumes with mount
// propagation need a shared mount, and hides the folders of a kubelet of this machine.
func prepareNamespace() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts: %w", err)
	}
	for _, dir := range hidden {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("keelson", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	return nil
}
