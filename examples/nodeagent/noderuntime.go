// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// declaredFeatures returns the features of Kubernetes 1.36 that a node declares and that this agent
// has. The scheduler reads the declaration. With ExtendWebSocketsToKubelet the API server passes
// kubectl's WebSockets on to --port. Without the feature the API server translates WebSockets to SPDY.
func (f *flags) declaredFeatures() []string {
	features := []string{"RestartAllContainersOnContainerExits"}
	if f.server.port != 0 {
		features = append(features, "ExtendWebSocketsToKubelet")
	}
	return features
}

// describeRuntime sets the facts about the container runtime. User namespaces are not reported,
// because the agent refuses pods with hostUsers: false.
func describeRuntime(f *nodestatus.Facts, rt runtime.Runtime) {
	backend, ok := rt.(cri.Backend)
	if !ok {
		f.Info.ContainerRuntimeVersion = rt.Name() + "://" + strings.TrimPrefix(f.Info.KubeletVersion, "v") // it is this program
		return
	}
	info := backend.Info()
	f.Info.ContainerRuntimeVersion = info.Name + "://" + strings.TrimPrefix(info.Version, "v")
	f.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &info.SupplementalGroupsPolicy}
	for name, h := range info.Handlers {
		f.RuntimeHandlers = append(f.RuntimeHandlers, v1.NodeRuntimeHandler{
			Name: name, Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &h.RecursiveReadOnlyMounts, UserNamespaces: new(bool)},
		})
	}
}

// runtimeNotReady returns an error with the kubelet's words, because tools and tests search for these
// words. The result is nil if err is nil.
func runtimeNotReady(err error) error {
	if err == nil {
		return nil
	}
	notReady, ok := errors.AsType[*cri.NotReadyError](err)
	if !ok {
		return fmt.Errorf("container runtime is down: %w", err)
	}
	words := map[string]string{"RuntimeReady": "container runtime not ready", "NetworkReady": "container runtime network not ready"}
	var all []string
	for _, c := range notReady.Conditions {
		all = append(all, fmt.Sprintf("%s: %s=false reason:%s message:%s", words[c.Type], c.Type, c.Reason, c.Message))
	}
	return errors.New(strings.Join(all, ", "))
}
