// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// membership is what a node of a cluster has that others do not.
type membership struct {
	source  podconfig.Source
	cluster nodeagent.Cluster
	objects clusterObjects
	run     func(context.Context) error // keeps what is known of the cluster up to date
	ending  func()                      // called when the agent begins to end
	leave   func()                      // ends what goes on beside the agent, after the agent has ended

	storage clusterStorage
}

// tokenMaker makes tokens of service accounts; *nodeagent.Agent is one.
type tokenMaker interface {
	Token(ctx context.Context, r projected.TokenRequest) (projected.Token, error)
}

// news is what a cluster tells the agent, and what it asks of it.
type news struct {
	changed     func(objects.Ref)
	nodeChanged func(*v1.Node)

	// What the agent tells it: these answer when the agent runs.
	runtime runtime.Runtime
	agent   func() *nodeagent.Agent
}

// clusterObjects are the ConfigMaps and Secrets of an API server, for pods that
// are registered.
type clusterObjects interface {
	nodeagent.Objects
	nodeagent.Registrar
}

// allObjects are those on the node itself, and behind them the cluster's.
type allObjects struct {
	own     *objects.Store
	cluster clusterObjects
}

// ConfigMap implements nodeagent.Objects.
func (a allObjects) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	found, err := a.own.ConfigMap(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return a.cluster.ConfigMap(ctx, namespace, name)
	}
	return found, err
}

// Secret implements nodeagent.Objects.
func (a allObjects) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	found, err := a.own.Secret(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return a.cluster.Secret(ctx, namespace, name)
	}
	return found, err
}

// Register implements nodeagent.Registrar.
func (a allObjects) Register(pod *v1.Pod) { a.cluster.Register(pod) }

// Unregister implements nodeagent.Registrar.
func (a allObjects) Unregister(uid types.UID) { a.cluster.Unregister(uid) }
