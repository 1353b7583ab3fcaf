// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Options say what a Runtime is made of.
type Options struct {
	// World is what the backend has done so far; it outlives the Runtime. A
	// second Runtime over the same World is the backend as an agent finds it
	// after its own restart. Defaults to a new World with default options.
	World *World

	// Check is what CheckPod, RunSandbox and CreateContainer ask about each pod;
	// a refusal is a *runtime.UnsupportedError. It is called with no lock held,
	// by several goroutines, never with nil. Defaults to accepting every pod.
	Check func(pod *v1.Pod) error
}

// WorldOptions say what kind of machine a World is.
type WorldOptions struct {
	// Name is the Runtime of every container ID. Defaults to "fake".
	Name string

	// NodeIP is the address of pods on the host's network. Defaults to 192.0.2.1.
	NodeIP string

	// PodIPs is where other pods get their address, one after the other; at the
	// end it begins again. Defaults to 10.88.0.0/16.
	PodIPs netip.Prefix

	// Latency is how long a call takes before it has any effect. A call whose
	// ctx ends during that time fails and has none. It is called with no lock
	// held, by several goroutines. Defaults to no time at all.
	Latency func(call Call) time.Duration

	// Behave is the script of containers for which World.Script has said
	// nothing. It is called with no lock held, once per start. Defaults to the
	// zero Script.
	Behave func(pod *v1.Pod, spec runtime.ContainerSpec) Script

	// WriteLogs also writes what containers print to LogPath, in the CRI's
	// format. Defaults to keeping it in memory only.
	WriteLogs bool

	// JournalLimit is how many of the latest entries the journal keeps; negative:
	// none. Defaults to all.
	JournalLimit int
}

func (o *WorldOptions) complete() error {
	if o.Name == "" {
		o.Name = "fake"
	}
	if strings.Contains(o.Name, "://") {
		return fmt.Errorf("fake: WorldOptions.Name %q contains ://", o.Name)
	}
	if o.NodeIP == "" {
		o.NodeIP = "192.0.2.1"
	}
	if _, err := netip.ParseAddr(o.NodeIP); err != nil {
		return fmt.Errorf("fake: WorldOptions.NodeIP: %w", err)
	}
	if o.PodIPs == (netip.Prefix{}) {
		o.PodIPs = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 88}), 16)
	}
	if !o.PodIPs.IsValid() {
		return errors.New("fake: WorldOptions.PodIPs is not a valid prefix")
	}
	o.PodIPs = o.PodIPs.Masked()
	return nil
}
