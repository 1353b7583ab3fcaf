// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/volumes"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// membership holds the additional parts of a node that belongs to a cluster.
type membership struct {
	source  podconfig.Source
	cluster node.Cluster
	objects clusterObjects
	class   findHandler                 // looks up RuntimeClasses
	run     func(context.Context) error // keeps the data from the API server up to date
	ending  func()                      // called when the agent starts to stop
	leave   func()                      // called after the agent has ended

	identity *identity

	storage clusterStorage
}

// tokenMaker requests service account tokens. *node.Agent implements it.
type tokenMaker interface {
	Token(ctx context.Context, r projected.TokenRequest) (projected.Token, error)
}

// news connects a membership with the agent: callbacks for changes in the cluster, and data for the
// Node status.
type news struct {
	changed     func(objects.Ref)
	nodeChanged func(*v1.Node)

	// Data for the Node status. agent returns nil before the agent is constructed.
	runtime runtime.Runtime
	agent   func() *node.Agent
	evictor *evictor
	devices *deviceManager
}

// clusterObjects provides ConfigMaps and Secrets of an API server to registered pods.
type clusterObjects interface {
	volumes.Objects
	volumes.Registrar
}

// allObjects looks up an object in the node's own folder first, and then in the cluster.
type allObjects struct {
	own     *objects.Store
	cluster clusterObjects
}

// ConfigMap implements volumes.Objects.
func (a allObjects) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	found, err := a.own.ConfigMap(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return a.cluster.ConfigMap(ctx, namespace, name)
	}
	return found, err
}

// Secret implements volumes.Objects.
func (a allObjects) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	found, err := a.own.Secret(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return a.cluster.Secret(ctx, namespace, name)
	}
	return found, err
}

// Register implements volumes.Registrar.
func (a allObjects) Register(pod *v1.Pod) { a.cluster.Register(pod) }

// Unregister implements volumes.Registrar.
func (a allObjects) Unregister(uid types.UID) { a.cluster.Unregister(uid) }
