// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/podconfig"
	podsource "github.com/keelson-dev/keelson/podconfig/apiserver"
	"github.com/keelson-dev/keelson/podconfig/mirror"
	statuses "github.com/keelson-dev/keelson/statusmanager/apiserver"
)

// joinCluster connects to the API server that --kubeconfig names: pods bound to
// this node come from there, and what becomes of them, and of static pods, goes
// there. Nothing is asked of it yet.
//
// leave ends what goes on beside the agent, after the agent has ended.
func joinCluster(f flags, log *zap.Logger) (source podconfig.Source, cluster nodeagent.Cluster, leave func(), err error) {
	fail := func(err error) (podconfig.Source, nodeagent.Cluster, func(), error) {
		return nil, nodeagent.Cluster{}, nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fail(fmt.Errorf("--kubeconfig: %w", err))
	}
	config.UserAgent = "keelson-nodeagent"
	config.QPS = -1 // the server's priority and fairness is the limit
	core, err := corev1.NewForConfig(config)
	if err != nil {
		return fail(fmt.Errorf("--kubeconfig: %w", err))
	}
	source, err = podsource.New(podsource.Config{Pods: core.Pods(""), NodeName: types.NodeName(f.node), Logger: log})
	if err != nil {
		return fail(err)
	}
	patcher, err := statuses.New(statuses.Options{Config: config})
	if err != nil {
		return fail(err)
	}
	// What client-go has to say of events that it could not write goes nowhere.
	broadcaster := record.NewBroadcaster(record.WithContext(logr.NewContext(context.Background(), logr.Discard())))
	broadcaster.StartRecordingToSink(&corev1.EventSinkImpl{Interface: core.Events("")})
	node := &nodeObject{nodes: core.Nodes(), name: f.node}
	return source, nodeagent.Cluster{
		Patcher: patcher,
		Mirrors: func(namespace string) mirror.Writer { return core.Pods(namespace) },
		Node:    node.get,
		Events:  broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "keelson", Host: f.node}),
	}, broadcaster.Shutdown, nil
}

// nodeObject is the API server's object of this node, which owns the mirror pods.
type nodeObject struct {
	nodes corev1.NodeInterface
	name  string

	mu   sync.Mutex
	node *v1.Node
	at   time.Time
}

// nodeAge is how old what is known of the node may be: only its UID and whether
// it is being deleted are of interest.
const nodeAge = time.Minute

func (n *nodeObject) get(ctx context.Context) (*v1.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.node != nil && time.Since(n.at) < nodeAge {
		return n.node, nil
	}
	node, err := n.nodes.Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	n.node, n.at = node, time.Now()
	return node, nil
}
