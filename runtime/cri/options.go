// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"
)

// Options are what a backend can be told.
type Options struct {
	// Root is the directory for the files that pods get from the agent: their
	// hosts files and termination messages, in <Root>/pods/<uid>, laid out as in
	// the kubelet's /var/lib/kubelet. Whoever wants to take a node over from the
	// kubelet, or to hand it back, names the kubelet's. Absolute. Required. It
	// need not exist.
	Root string
	// CgroupParent returns the cgroup that a pod's are to be in, in cgroupfs
	// notation; the caller has made it. "" leaves it to the runtime. It may be
	// called concurrently and must return the same for a pod every time.
	// Defaults to leaving it to the runtime.
	CgroupParent func(pod *v1.Pod) string
	// RuntimeHandlers are the runtime's handlers by the name of the RuntimeClass.
	// A pod of a class that is not in it is refused. Defaults to none.
	RuntimeHandlers map[string]string
	// DNS is what pods' resolv.conf is made from. Defaults to the node's.
	DNS DNS
	// SeccompDefault gives the runtime's own seccomp profile to containers that
	// ask for none; privileged ones excepted. Defaults to no profile, as the
	// kubelet's.
	SeccompDefault bool
	// SeccompRoot is the directory of Localhost profiles. Absolute. Defaults to
	// <Root>/seccomp.
	SeccompRoot string
	// MemoryCapacity is the node's memory in bytes; a container's share of it
	// decides whom the kernel's OOM killer takes first. Defaults to MemTotal of
	// /proc/meminfo.
	MemoryCapacity int64
	// UserNamespaces returns which of the node's IDs a pod with hostUsers: false
	// gets, for its sandbox and its containers. It may be called concurrently, and
	// must return the same for a pod for as long as that has a sandbox; no other
	// pod may have any of them. Its error is that of the call. Defaults to nil:
	// such pods are refused.
	UserNamespaces func(pod *v1.Pod) (IDMapping, error)
	// MemoryQoS sets memory.min and memory.high. It needs cgroup v2. Defaults to
	// nil: neither is set.
	MemoryQoS *MemoryQoS
	// Swap sets memory.swap.max. All but the default need cgroup v2. Defaults to
	// leaving it to the runtime.
	Swap SwapPolicy
	// SwapCapacity is the node's swap in bytes, for LimitedSwap. Defaults to
	// SwapTotal of /proc/meminfo.
	SwapCapacity int64
	// ParallelInspections bounds how many containers and sandboxes of one call
	// are looked at at a time. Defaults to 8.
	ParallelInspections int
	// Logger tells of what is worth knowing and no call's error. Defaults to
	// none.
	Logger *zap.Logger
}

// DNS is what the resolv.conf of pods is made from.
type DNS struct {
	// Servers are the cluster's DNS servers, at most 3 are used. Defaults to
	// none: pods that ask for the cluster's DNS get the node's.
	Servers []string
	// Domain is the cluster's domain, as in "cluster.local". Defaults to none.
	Domain string
	// ResolvConf is the node's file. Absolute. Defaults to /etc/resolv.conf.
	ResolvConf string
}

// complete checks o and fills in the defaults that need no look at the machine.
// Slices and maps are copied. The error names the bad field.
func (o Options) complete() (Options, error) {
	switch {
	case o.Root == "":
		return o, errors.New("cri: Options.Root is required")
	case !filepath.IsAbs(o.Root):
		return o, fmt.Errorf("cri: Options.Root: %q is not absolute", o.Root)
	case o.MemoryCapacity < 0:
		return o, fmt.Errorf("cri: Options.MemoryCapacity is %d: want 0 or more", o.MemoryCapacity)
	case o.SwapCapacity < 0:
		return o, fmt.Errorf("cri: Options.SwapCapacity is %d: want 0 or more", o.SwapCapacity)
	case o.Swap != SwapOfRuntime && o.Swap != NoSwap && o.Swap != LimitedSwap:
		return o, fmt.Errorf("cri: Options.Swap: %q is not known", o.Swap)
	case o.MemoryQoS != nil && !(o.MemoryQoS.ThrottlingFactor >= 0 && o.MemoryQoS.ThrottlingFactor <= 1): // nor NaN
		return o, fmt.Errorf("cri: Options.MemoryQoS.ThrottlingFactor is %v: want 0 to 1", o.MemoryQoS.ThrottlingFactor)
	case o.MemoryQoS != nil && o.MemoryQoS.Allocatable < 0:
		return o, fmt.Errorf("cri: Options.MemoryQoS.Allocatable is %d: want 0 or more", o.MemoryQoS.Allocatable)
	case o.ParallelInspections < 0:
		return o, fmt.Errorf("cri: Options.ParallelInspections is %d: want 0 or more", o.ParallelInspections)
	}
	o.Root = filepath.Clean(o.Root)
	if o.SeccompRoot == "" {
		o.SeccompRoot = filepath.Join(o.Root, "seccomp")
	}
	if !filepath.IsAbs(o.SeccompRoot) {
		return o, fmt.Errorf("cri: Options.SeccompRoot: %q is not absolute", o.SeccompRoot)
	}
	if o.DNS.ResolvConf == "" {
		o.DNS.ResolvConf = "/etc/resolv.conf"
	}
	if !filepath.IsAbs(o.DNS.ResolvConf) {
		return o, fmt.Errorf("cri: Options.DNS.ResolvConf: %q is not absolute", o.DNS.ResolvConf)
	}
	for _, s := range o.DNS.Servers {
		if _, err := netip.ParseAddr(s); err != nil {
			return o, fmt.Errorf("cri: Options.DNS.Servers: %w", err)
		}
	}
	if o.MemoryQoS != nil {
		own := *o.MemoryQoS
		if own.ThrottlingFactor == 0 {
			own.ThrottlingFactor = 0.9
		}
		o.MemoryQoS = &own
	}
	o.DNS.Servers = slices.Clone(o.DNS.Servers)
	o.RuntimeHandlers = maps.Clone(o.RuntimeHandlers)
	if o.ParallelInspections == 0 {
		o.ParallelInspections = 8
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o, nil
}
