// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Example runs the pods of a folder until they are up, and prints their phases. A permanent agent
// calls Run instead.
func Example() {
	root, err := os.MkdirTemp("", "node")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	if err := bringUp(root); err != nil {
		fmt.Println(err)
	}
	// Output:
	// web-gw-17 Running <nil>
}

func bringUp(root string) error {
	path := filepath.Join(root, "web.yaml")
	err := os.WriteFile(path, []byte("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: web}]}}"), 0o600)
	if err != nil {
		return err
	}
	pods, err := file.New(file.Config{Path: path, Decoder: &manifest.Decoder{NodeName: "gw-17"}})
	if err != nil {
		return err
	}
	rt, err := fake.New(fake.Options{}) // or process.New, or cri.New
	if err != nil {
		return err
	}
	agent, err := node.New(node.Options{
		NodeName: "gw-17", Root: filepath.Join(root, "agent"), Runtime: rt, Sources: []podconfig.Source{pods},
	})
	if err != nil {
		return err
	}
	results, err := agent.RunOnce(context.Background(), node.RunOnceOptions{Timeout: time.Minute})
	for _, r := range results {
		fmt.Println(r.Pod.Name, r.Pod.Status.Phase, r.Err)
	}
	return err
}

// Example_rules runs an agent with rules of its own. It admits signed pods only, pulls images with
// the credentials of the device, restarts a crashed container after a minute at the latest, and
// has no in-place resize.
func Example_rules() {
	root, err := os.MkdirTemp("", "node")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	if err := runDevice(root); err != nil {
		fmt.Println(err)
	}
	// Output:
	// app Running
	// foreign Failed Unsigned
}

func runDevice(root string) error {
	rt, err := fake.New(fake.Options{})
	if err != nil {
		return err
	}
	agent, err := node.New(node.Options{
		NodeName: "gw-17", Root: root, Runtime: rt,
		Sources: []podconfig.Source{podconfig.SourceFunc("bus", deliver)},
		Admit:   signed,
		Keyring: credentials,
		Backoff: runtime.Backoff{Max: time.Minute},
		Without: []string{"resize"},
	})
	if err != nil {
		return err
	}
	results, _ := agent.RunOnce(context.Background(), node.RunOnceOptions{})
	for _, r := range results {
		fmt.Println(strings.TrimSpace(fmt.Sprintln(r.Pod.Name, r.Pod.Status.Phase, r.Pod.Status.Reason)))
	}
	return nil
}

// signed refuses pods without a signature.
func signed(pod *v1.Pod) []admission.Failure {
	if pod.Annotations["signature"] == "" { // verify it here
		return []admission.Failure{{Reason: "Unsigned", Message: "the pod has no signature"}}
	}
	return nil
}

// credentials returns the credentials of the device, which its registry knows. The agent calls it
// for each pull; the fake runtime of this example pulls nothing.
func credentials(_ context.Context, _ *v1.Pod, _ string) ([]runtime.ImageAuth, error) {
	return []runtime.ImageAuth{{Username: "gw-17", IdentityToken: "of the device"}}, nil
}

func deliver(ctx context.Context, out podconfig.Sink) error {
	app, foreign := &v1.Pod{}, &v1.Pod{}
	app.Annotations = map[string]string{"signature": "…"}
	for i, pod := range []*v1.Pod{app, foreign} {
		pod.Namespace, pod.Name, pod.UID = "default", []string{"app", "foreign"}[i], []types.UID{"1", "2"}[i]
		pod.Spec.Containers = []v1.Container{{Name: "c", Image: "registry.example/app:1"}}
		manifest.SetDefaults(pod)
	}
	if err := out.Submit(ctx, podconfig.Snapshot(app, foreign)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
