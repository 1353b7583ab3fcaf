// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// auditVolumes returns mounts, folders and records of volumes without a pod in the runtime. It
// removes nothing, because the agent removes them when it starts.
func auditVolumes(ctx context.Context, root string, rt runtime.Runtime) ([]finding, error) {
	listed, err := rt.List(ctx, runtime.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	pods := map[types.UID]bool{}
	for _, pod := range listed {
		pods[pod.UID] = true
	}
	plugins, err := namedPlugins(root)
	if err != nil {
		return nil, err
	}
	manager, err := volumemanager.New(volumemanager.Options{
		Root: root, Pods: goneUnless(pods), Plugins: plugins, Mounts: volumemanager.MountTableFunc(mount.Points),
	})
	if err != nil {
		return nil, err
	}
	// A volume that cannot be reconstructed is among the leftovers, or in the error.
	reconstructErr := manager.Reconstruct(ctx)
	left, err := manager.Leftovers(ctx, func(uid types.UID) bool { return pods[uid] })
	var out []finding
	for _, l := range left {
		out = append(out, finding{kind: "volume " + l.Kind.String(), what: l.Path, ours: "no",
			why: l.Why + "; the agent looks after it when it runs"})
	}
	return out, errors.Join(reconstructErr, err)
}

// goneUnless implements the pod lookup of volumemanager: a pod is gone unless the runtime has it.
type goneUnless map[types.UID]bool

func (g goneUnless) ShouldPodRuntimeBeRemoved(uid types.UID) bool { return !g[uid] }

func (g goneUnless) ShouldPodContainersBeTerminating(uid types.UID) bool { return !g[uid] }

// namedPlugin is a plugin with a name only. The audit neither sets up nor tears down volumes.
type namedPlugin string

func (p namedPlugin) Name() string                     { return string(p) }
func (p namedPlugin) Supports(volumemanager.Spec) bool { return false }

func (p namedPlugin) SetUp(context.Context, volumemanager.Mount) (volumemanager.Mounted, error) {
	return volumemanager.Mounted{}, errAuditOnly
}

func (p namedPlugin) TearDown(context.Context, volumemanager.Unmount) error { return errAuditOnly }

var errAuditOnly = errors.New("an audit changes no volume")

// namedPlugins returns a plugin for each plugin folder below root/pods, and for staged CSI volumes.
func namedPlugins(root string) ([]volumemanager.Plugin, error) {
	names := map[string]bool{"kubernetes.io/csi": true}
	dirs, err := filepath.Glob(filepath.Join(root, "pods", "*", "volumes", "*"))
	for _, dir := range dirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			names[strings.ReplaceAll(filepath.Base(dir), "~", "/")] = true
		}
	}
	var out []volumemanager.Plugin
	for name := range names {
		out = append(out, namedPlugin(name))
	}
	return out, err
}
