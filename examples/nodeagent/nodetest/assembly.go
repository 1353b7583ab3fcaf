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

// Assembly is an agent: parts of this module, wired together. *node.Agent is an Assembly.
type Assembly interface {
	// Run runs the agent until ctx ends, then acts according to node.Options.OnShutdown. Run
	// returns after the end of all its goroutines.
	Run(ctx context.Context) error
	// Pods returns the pods known to the agent, with their live statuses. The caller does not
	// modify the pods.
	Pods() []*v1.Pod
	// Workers yields the state of the worker of each pod.
	Workers() iter.Seq2[types.UID, podworkers.WorkerInfo]
}

// Assemble makes an agent. An assembly without a feature ignores the options of the feature. Every
// assembly must honour Root, Runtime, Sources, OnShutdown, StopTimeout, Status, Objects,
// ProbeHandler, VolumePlugins, Cluster.Patcher and Random.
type Assemble func(node.Options) (Assembly, error)

// ReferenceAgent makes a *node.Agent.
func ReferenceAgent(o node.Options) (Assembly, error) { return node.New(o) }
