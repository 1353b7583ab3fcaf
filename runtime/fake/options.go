// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Options configure a Runtime.
type Options struct {
	// World has the backend's state and outlives the Runtime. A second Runtime over the same World
	// is the backend after a restart of the agent. Defaults to a new World with default options.
	World *World

	// Check is called by CheckPod, RunSandbox and CreateContainer for each pod. A refusal is a
	// *runtime.UnsupportedError. Check is called with no lock held, by several goroutines. The pod is
	// never nil. Defaults to accepting every pod.
	Check func(pod *v1.Pod) error
}

// WorldOptions configure a World.
type WorldOptions struct {
	// Name is the Runtime of every container ID. Defaults to "fake".
	Name string

	// PodCIDR has the IPv4 addresses of pods. Each World of a simulated cluster needs a network of its
	// own. Defaults to 10.88.0.0/16.
	PodCIDR netip.Prefix

	// Latency returns the time before a call takes effect. If ctx ends before, the call fails without
	// effect. Latency is called with no lock held, by several goroutines. Defaults to zero.
	Latency func(call Call) time.Duration

	// Behave returns the script of containers that no World.Script call selects. Behave is called
	// with no lock held, once per start. Defaults to the zero Script.
	Behave func(pod *v1.Pod, spec runtime.ContainerSpec) Script

	// Echo makes Watch hint at the effects of calls too: the start and the exit of a container that
	// a call brought about. The event stream of containerd does so. Without Echo, Watch is as
	// silent as runtime.Watcher allows.
	Echo bool

	// WriteLogs writes the output of containers to LogPath in the CRI's format. By default the
	// output is kept in memory only.
	WriteLogs bool

	// JournalLimit is the number of latest entries in the journal; negative: none. Defaults to all.
	JournalLimit int
}

func (o *WorldOptions) complete() error {
	if o.Name == "" {
		o.Name = "fake"
	}
	if strings.Contains(o.Name, "://") {
		return fmt.Errorf("fake: WorldOptions.Name %q contains ://", o.Name)
	}
	if o.PodCIDR == (netip.Prefix{}) {
		o.PodCIDR = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 88, 0, 0}), 16)
	}
	if !o.PodCIDR.Addr().Is4() || o.PodCIDR.Bits() > 30 || o.PodCIDR != o.PodCIDR.Masked() {
		return fmt.Errorf("fake: WorldOptions.PodCIDR %s: want an IPv4 network with 30 bits or less", o.PodCIDR)
	}
	return nil
}
