// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/podworkers"
)

// Assembly is an agent: the parts of this module, wired. *node.Agent is one.
type Assembly interface {
	// Run runs the agent until ctx ends, then does as node.Options.OnShutdown says, and returns when every
	// goroutine that it started has ended.
	Run(ctx context.Context) error
	// Pods returns the pods that the agent knows, each with its live status. They are not written.
	Pods() []*v1.Pod
	// Workers yields what the agent is doing for each pod.
	Workers() iter.Seq2[types.UID, podworkers.WorkerInfo]
}

// Assemble makes an agent. An assembly without a feature ignores the options for it; what every assembly has to honour
// is Root, Runtime, Sources, OnShutdown, StopTimeout, Status, Objects, ProbeHandler, VolumePlugins, Cluster.Patcher and
// Random.
type Assemble func(node.Options) (Assembly, error)

// ReferenceAgent makes a *node.Agent.
func ReferenceAgent(o node.Options) (Assembly, error) { return node.New(o) }
