// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver || !noeviction

package main

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// collector measures the usage of the node and its pods.
type collector = nodestats.Collector

// newCollector returns the collector of the node's usage, for the server of --port and for evictions.
// It measures only when asked.
func newCollector(f flags, rt runtime.Runtime, pods func() []*v1.Pod, folders func(types.UID) map[string]string) (*collector, error) {
	opts := nodestats.Options{NodeName: f.node, Pods: pods, Root: f.root, LogDir: f.logs, VolumeFolders: folders}
	opts.Runtime, _ = rt.(stats.Reader)
	if backend, ok := rt.(cri.Backend); ok {
		opts.Cgroups, opts.PodsCgroup = cgroup.New("/sys/fs/cgroup"), f.cgroups.ofAllPods()
		opts.Contained = cgroup.InNamespace()
		opts.ImageFS = func(ctx context.Context) (stats.FileSystem, error) {
			first, err := imageFileSystem(ctx, backend)
			return stats.FileSystem{At: time.Now(), Mountpoint: first.Mountpoint, UsedBytes: first.UsedBytes, InodesUsed: first.InodesUsed}, err
		}
	}
	return nodestats.New(opts)
}
