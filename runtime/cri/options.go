// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"
)

// Options configure a backend.
type Options struct {
	// Root is the directory of the files for pods: hosts files and termination messages in
	// <Root>/pods/<uid>, and Localhost seccomp profiles in <Root>/seccomp, laid out as in the
	// kubelet's /var/lib/kubelet. To take a node over from
	// the kubelet, or to hand the node back, set the kubelet's directory. Absolute. Required. The
	// directory need not exist.
	Root string
	// CgroupParent returns the cgroup of the pod, in cgroupfs notation; the caller has made the
	// cgroup. "" leaves the choice to the runtime. CgroupParent may be called concurrently and must
	// return the same cgroup for a pod every time. Defaults to the runtime's choice.
	CgroupParent func(pod *v1.Pod) string
	// RuntimeHandlers are the runtime's handlers by the name of the RuntimeClass. A pod of an
	// unlisted class is refused, unless FindHandler finds it. Defaults to no handlers.
	RuntimeHandlers map[string]string
	// FindHandler returns the runtime's handler of a class that RuntimeHandlers does not list, for
	// example from an API server. FindHandler is called before each sandbox of such a class, and after
	// a restart of the program before the next container. FindHandler may be called concurrently. An
	// error fails the call, unless FindHandler returned a handler of the class before and the error is
	// not a NotFound of the API. Defaults to nil: a pod of an unlisted class is refused.
	FindHandler func(ctx context.Context, class string) (handler string, err error)
	// DNS configures the pods' resolv.conf. Defaults to the node's.
	DNS DNS
	// SeccompDefault gives the runtime's own seccomp profile to containers without a profile;
	// privileged containers excepted. Defaults to no profile, as in the kubelet.
	SeccompDefault bool
	// UserNamespaces returns the node's IDs for the sandbox and containers of a pod with hostUsers:
	// false. UserNamespaces may be called concurrently. The result for a pod must stay the same as
	// long as the pod has a sandbox, and must not overlap with another pod's IDs. An error fails
	// the call. Defaults to nil: pods with hostUsers: false are refused.
	UserNamespaces func(pod *v1.Pod) (IDMapping, error)
	// MemoryQoS sets memory.min, memory.low and memory.high. Needs cgroup v2. Defaults to nil: none is
	// set.
	MemoryQoS *MemoryQoS
	// Swap sets memory.swap.max. All but the default need cgroup v2. Defaults to the runtime's
	// choice.
	Swap SwapPolicy
	// Logger receives warnings beside the calls' errors. Defaults to no logging.
	Logger *zap.Logger
}

// DNS configures the resolv.conf of pods.
type DNS struct {
	// Servers are the cluster's DNS servers, at most 3 are used. Defaults to no servers: pods with
	// the cluster's DNS policy get the node's servers.
	Servers []string
	// Domain is the cluster's domain, as in "cluster.local". Defaults to no domain.
	Domain string
	// ResolvConf is the node's file. Absolute. Defaults to /etc/resolv.conf.
	ResolvConf string
}

// complete checks o and fills in the defaults known without the machine. Slices and maps are
// copied. The error names the bad field.
func (o Options) complete() (Options, error) {
	switch {
	case o.Root == "":
		return o, errors.New("cri: Options.Root is required")
	case !filepath.IsAbs(o.Root):
		return o, fmt.Errorf("cri: Options.Root: %q is not absolute", o.Root)
	case o.Swap != SwapOfRuntime && o.Swap != NoSwap && o.Swap != LimitedSwap:
		return o, fmt.Errorf("cri: Options.Swap: %q is not known", o.Swap)
	case o.MemoryQoS != nil && !(o.MemoryQoS.ThrottlingFactor >= 0 && o.MemoryQoS.ThrottlingFactor <= 1): // nor NaN
		return o, fmt.Errorf("cri: Options.MemoryQoS.ThrottlingFactor is %v: want 0 to 1", o.MemoryQoS.ThrottlingFactor)
	case o.MemoryQoS != nil && o.MemoryQoS.Reservation != "" && o.MemoryQoS.Reservation != NoReservation && o.MemoryQoS.Reservation != TieredReservation:
		return o, fmt.Errorf("cri: Options.MemoryQoS.Reservation: %q is not known", o.MemoryQoS.Reservation)
	case o.MemoryQoS != nil && o.MemoryQoS.Allocatable < 0:
		return o, fmt.Errorf("cri: Options.MemoryQoS.Allocatable is %d: want 0 or more", o.MemoryQoS.Allocatable)
	}
	o.Root = filepath.Clean(o.Root)
	o.DNS.ResolvConf = cmp.Or(o.DNS.ResolvConf, "/etc/resolv.conf")
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
		o.MemoryQoS = &own
	}
	o.DNS.Servers = slices.Clone(o.DNS.Servers)
	o.RuntimeHandlers = maps.Clone(o.RuntimeHandlers)
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return o, nil
}
