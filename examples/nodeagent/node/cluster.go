// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/volumes"
	"github.com/keelson-dev/keelson/podconfig/mirror"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// Cluster connects the agent to an API server. Pods of the API server come from a source in
// Options.Sources. Every field is optional.
type Cluster struct {
	// Patcher writes the pods' statuses and deletes terminated pods that have a deletion timestamp.
	// Defaults to none.
	Patcher statusmanager.Patcher
	// Coalesce returns how long a status may wait for the next status of its pod: see
	// statusmanager.Options. Defaults to statusmanager.CoalesceInit with 2 s.
	Coalesce func(statusmanager.Change) time.Duration
	// Mirrors returns a writer of mirror pods for one namespace. Defaults to none.
	Mirrors func(namespace string) mirror.Writer
	// Node returns the API server's object of this node. The agent uses it as the owner of mirror
	// pods, and for the labels, taints and resources in admission. Required with Mirrors.
	Node func(ctx context.Context) (*v1.Node, error)
	// Events records the same events as Options.Events. Defaults to none.
	Events runtime.EventRecorder
	// Claims finds the persistent volumes of pods. Defaults to none: a pod with a claim is refused.
	Claims volumemanager.Claims
	// Attachments exchanges the node's attached and used volumes with the attach/detach controller.
	// Call Agent.NodeChanged when the Node object has changed. Defaults to none: volumes count as
	// attached.
	Attachments volumes.Attachments
	// Services returns the Services for the environment variables of a pod's containers: see
	// runtime.DefaultGeneratorOptions. Defaults to none.
	Services func(ctx context.Context, pod *v1.Pod) ([]*v1.Service, error)
	// Tokens requests service account tokens. Defaults to none.
	Tokens projected.TokenSource
}
