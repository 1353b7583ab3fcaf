// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/keelson-dev/keelson/internal/kubeclient"
	"github.com/keelson-dev/keelson/podconfig/mirror"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
	"github.com/keelson-dev/keelson/runtime/services"
	"github.com/keelson-dev/keelson/statusmanager/statuspatch"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

// joinCluster connects to the API server of --kubeconfig. The API server is the source of pods
// bound to this node and of their objects, and receives statuses, mirror pods and events.
// joinCluster sends no request.
func joinCluster(f flags, tell news, log *zap.Logger) (*membership, error) {
	identity, err := newIdentity(f, log)
	if err != nil {
		return nil, err
	}
	config := identity.client.Config()
	config.UserAgent = "keelson-nodeagent"
	config.QPS = -1 // no client-side limit: the server has priority and fairness
	client, err := kubeclient.New(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	m := &membership{ending: func() {}, identity: identity, class: findRuntimeClass(client.RuntimeClasses())}
	if m.source, err = podwatch.New(podwatch.Config{Pods: client.Pods(""), NodeName: types.NodeName(f.node), Logger: log}); err != nil {
		return nil, err
	}
	if m.cluster.Patcher, err = statuspatch.New(statuspatch.Options{Config: config}); err != nil {
		return nil, err
	}
	core := volumeapi.FromCore(client)
	known, err := volumeapi.NewObjects(volumeapi.ObjectsOptions{Client: core, Changed: tell.changed, Logger: log})
	if err != nil {
		return nil, err
	}
	node, err := volumeapi.NewNode(volumeapi.NodeOptions{Client: core, NodeName: types.NodeName(f.node), Changed: tell.nodeChanged, Logger: log})
	if err != nil {
		return nil, err
	}
	if m.cluster.Claims, err = volumeapi.NewClaims(volumeapi.ClaimsOptions{Client: core, Node: node.Get}); err != nil {
		return nil, err
	}
	if m.cluster.Tokens, err = volumeapi.NewTokens(volumeapi.TokensOptions{Client: core}); err != nil {
		return nil, err
	}
	linked, err := services.New(services.Options{
		Client: client.Services(""), File: filepath.Join(f.root, "desired", "services.json"), Logger: log,
	})
	if err != nil {
		return nil, err
	}
	m.cluster.Services = linked.For
	m.objects, m.run = known, together(known.Run, linked.Run, identity.run)
	if len(f.csiSockets) > 0 {
		if err := m.joinStorage(f, client, node, log); err != nil {
			return nil, err
		}
	}
	m.cluster.Mirrors = func(namespace string) mirror.Writer { return client.Pods(namespace) }
	m.cluster.Node = node.Get
	// Messages of client-go about events that could not be written are discarded.
	broadcaster := record.NewBroadcaster(record.WithContext(logr.NewContext(context.Background(), logr.Discard())))
	broadcaster.StartRecordingToSink(kubeclient.EventSink{Client: client})
	m.cluster.Events = broadcaster.NewRecorder(kubeclient.Scheme(), v1.EventSource{Component: "keelson", Host: f.node})
	m.leave = broadcaster.Shutdown
	if f.identity.rotateOwn {
		if err := identity.serve(f, m.cluster.Events, log); err != nil {
			m.leave()
			return nil, err
		}
	}
	if f.register {
		if err := m.register(f, client, tell, log); err != nil {
			m.leave()
			return nil, err
		}
	}
	return m, nil
}
