// SPDX-License-Identifier: Apache-2.0

package node

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
)

// Census holds counts of pods, by the rules of the kubelet's metrics (1.36).
type Census struct {
	// Desired counts the pods that sources list. Active counts the desired pods that have neither
	// ended nor been refused. The key is true for static pods.
	Desired, Active map[bool]int
	// Mirrors are the mirror pods on the API server.
	Mirrors int
	// Working counts the pods known to the workers, including terminated pods that are still
	// desired.
	Working map[Work]int
}

// Work is the state of a pod in the workers.
type Work struct {
	State  podworkers.State
	Config Config
	Static bool // false if the workers have only runtime data of the pod
}

// Config is the origin of the workers' knowledge of a pod.
type Config uint8

// The values of Config.
const (
	ConfigDesired     Config = iota // a source lists the pod
	ConfigOrphan                    // a source listed the pod earlier
	ConfigRuntimeOnly               // no source has listed the pod since the agent began
)

// String returns the label value that the kubelet uses.
func (c Config) String() string {
	switch c {
	case ConfigDesired:
		return "desired"
	case ConfigOrphan:
		return "orphan"
	default:
		return "runtime_only"
	}
}

// Census counts the pods.
func (a *Agent) Census() Census {
	c := Census{Desired: make(map[bool]int), Active: make(map[bool]int), Working: make(map[Work]int)}
	desired := make(map[types.UID]bool)
	for _, pod := range a.host.DesiredPods() {
		static := podconfig.IsStatic(pod)
		desired[pod.UID] = true
		c.Desired[static]++
		if a.isActive(pod) {
			c.Active[static]++
		}
	}
	for range a.config.index.Mirrors() {
		c.Mirrors++
	}
	for uid, info := range a.host.Workers.All() {
		w := Work{State: info.State, Static: info.Exclusive}
		switch {
		case !info.HasConfig:
			w.Config = ConfigRuntimeOnly
		case !desired[uid]:
			w.Config = ConfigOrphan
		}
		c.Working[w]++
	}
	return c
}

// isActive reports whether a desired pod counts as active. A pod that is still being terminated is
// active.
func (a *Agent) isActive(pod *v1.Pod) bool {
	if a.host.Workers.IsPodTerminationRequested(pod.UID) {
		return !a.host.Workers.IsPodKnownTerminated(pod.UID)
	}
	return !podfacts.IsTerminal(a.host.Status(pod).Phase)
}
