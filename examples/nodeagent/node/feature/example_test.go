// SPDX-License-Identifier: Apache-2.0

package feature_test

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// leases is a feature that requires an "owner" annotation and fails a pod at the time in its
// annotation "until".
func leases(h *feature.Host) []feature.Feature {
	return []feature.Feature{{
		Name: "leases",
		Check: func(pod *v1.Pod) []string {
			if pod.Annotations["owner"] == "" {
				return []string{"metadata.annotations[owner] (every pod of this node has one)"}
			}
			return nil
		},
		Hook: podsync.Hook{Deadline: func(pod *v1.Pod, _ *v1.PodStatus) (d podsync.Deadline, ok bool) {
			at, err := time.Parse(time.RFC3339, pod.Annotations["until"])
			return podsync.Deadline{At: at, Reason: "LeaseIsOver", Message: "the owner has asked for no longer"}, err == nil
		}},
	}}
}

// Example runs two pods on a node with an additional feature.
func Example() {
	if err := run(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// billed-gw-17 Failed LeaseIsOver
	// free-gw-17 Failed UnsupportedPodSpec
}

func run() error {
	root, err := os.MkdirTemp("", "node")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	rt, err := fake.New(fake.Options{})
	if err != nil {
		return err
	}
	agent, err := node.New(node.Options{
		NodeName: "gw-17", Root: root, Runtime: rt, Features: leases,
		Sources: []podconfig.Source{podconfig.SourceFunc("bus", bus)},
	})
	if err != nil {
		return err
	}
	results, _ := agent.RunOnce(context.Background(), node.RunOnceOptions{})
	for _, r := range results {
		fmt.Println(r.Pod.Name, r.Pod.Status.Phase, r.Pod.Status.Reason)
	}
	return nil
}

func bus(ctx context.Context, out podconfig.Sink) error {
	decoder := &manifest.Decoder{NodeName: "gw-17"}
	var pods []*v1.Pod
	for _, text := range []string{
		`{apiVersion: v1, kind: Pod, metadata: {name: free}, spec: {containers: [{name: c, image: web}]}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: billed, annotations: {owner: a, until: "2026-01-01T00:00:00Z"}}, spec: {containers: [{name: c, image: web}]}}`,
	} {
		pod, err := decoder.Pod([]byte(text), manifest.Origin{Location: "bus"})
		if err != nil {
			return err
		}
		pods = append(pods, pod)
	}
	if err := out.Submit(ctx, podconfig.Snapshot(pods...)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
