// SPDX-License-Identifier: Apache-2.0

package nodestats_test

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Example measures a node with one pod in a runtime in memory.
func Example() {
	dir, err := os.MkdirTemp("", "nodestats")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	rt, err := fake.New(fake.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rt.Script(fake.Target{Container: "main"}, fake.Script{Memory: 64 << 20})
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "web:1"}}},
	}
	if err := run(rt, pod); err != nil {
		fmt.Println(err)
		return
	}

	collector, err := nodestats.New(nodestats.Options{
		NodeName: "edge-1", Root: dir, LogDir: dir,
		Pods:    func() []*v1.Pod { return []*v1.Pod{pod} },
		Runtime: rt,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	snapshot, err := collector.Collect(ctx, nodestats.Request{Detail: nodestats.CPUAndMemory})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range snapshot.Summary.Pods {
		fmt.Println(p.PodRef.Name, p.Containers[0].Name, *p.Containers[0].Memory.WorkingSetBytes>>20, "MiB")
	}
	// Output: web main 64 MiB
}

// run starts the first container of a pod.
func run(rt *fake.Runtime, pod *v1.Pod) error {
	ctx := context.Background()
	sandbox, err := rt.RunSandbox(ctx, runtime.SandboxSpec{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name})
	if err != nil {
		return err
	}
	id, err := rt.CreateContainer(ctx, sandbox, runtime.ContainerSpec{Name: pod.Spec.Containers[0].Name})
	if err != nil {
		return err
	}
	return rt.StartContainer(ctx, id)
}
