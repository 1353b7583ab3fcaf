// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
)

// Census is how many pods there are, as the kubelet (1.36) counts them for its
// metrics.
type Census struct {
	// Desired are the pods that sources want; Active those of them that are neither
	// over nor refused. The key says whether they are static.
	Desired, Active map[bool]int
	// Mirrors are the mirror pods on the API server.
	Mirrors int
	// Working are the pods that are worked on, and those that were and are desired
	// yet.
	Working map[Work]int
}

// Work is what the workers know of a pod.
type Work struct {
	State  podworkers.State
	Config Config
	Static bool // false where nothing is known of the pod's configuration
}

// Config says who knows of a pod.
type Config uint8

// Who knows of a pod.
const (
	ConfigDesired     Config = iota // a source wants it
	ConfigOrphan                    // one wanted it
	ConfigRuntimeOnly               // none has in the agent's life
)

// String returns the kubelet's word.
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

// Census counts.
func (a *Agent) Census() Census {
	c := Census{Desired: make(map[bool]int), Active: make(map[bool]int), Working: make(map[Work]int)}
	desired := make(map[types.UID]bool)
	for _, pod := range a.pods.all() {
		static := podconfig.IsStatic(pod)
		desired[pod.UID] = true
		c.Desired[static]++
		if a.isActive(pod) {
			c.Active[static]++
		}
	}
	for range a.index.Mirrors() {
		c.Mirrors++
	}
	for uid, info := range a.workers.All() {
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

// isActive reports whether a desired pod counts as one that runs or is to run.
func (a *Agent) isActive(pod *v1.Pod) bool {
	switch over := isOver(a.statuses.get(pod).Phase); {
	case a.workers.IsPodKnownTerminated(pod.UID):
		return false
	case a.workers.IsPodTerminationRequested(pod.UID):
		return true
	default:
		return !over
	}
}
