// SPDX-License-Identifier: Apache-2.0

package updates_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/updates"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Example updates a pod to a version that this node refuses. The first version stays.
func Example() {
	if err := run(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// UpdateSucceeded
	// UpdateRefused
	// web-gw-17 runs web:1, Steady
}

func run() error {
	root, err := os.MkdirTemp("", "node")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	rt, err := fake.New(fake.Options{Check: func(pod *v1.Pod) error {
		if pod.Spec.Containers[0].Image == "web:2" {
			return fmt.Errorf("web:2 is not for this node")
		}
		return nil
	}})
	if err != nil {
		return err
	}
	u, err := updates.New(updates.Options{Default: updates.Transactional, Gate: updates.Gate{Ready: time.Millisecond}})
	if err != nil {
		return err
	}
	agent, err := node.New(node.Options{
		NodeName: "gw-17", Root: root, Runtime: rt,
		Sources: u.Sources(podconfig.SourceFunc("bus", bus(root))), Features: u.Features,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	go func() {
		defer stop()
		r := wait(ctx, root, 2)
		for _, e := range r.History {
			fmt.Println(e.Reason)
		}
		for _, pod := range agent.Pods() {
			fmt.Printf("%s runs %s, %s\n", pod.Name, pod.Spec.Containers[0].Image, r.Phase)
		}
	}()
	return agent.Run(ctx)
}

// wait waits until the history of the pod has n entries.
func wait(ctx context.Context, root string, n int) (r updates.Record) {
	for ctx.Err() == nil {
		units, err := updates.Units(filepath.Join(root, "updates"))
		if err == nil && len(units) == 1 {
			if r = units[0].Record; len(r.History) >= n {
				return r
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return r
}

// bus lists the pod with the image web:1, and with web:2 when the first version is good.
func bus(root string) func(ctx context.Context, out podconfig.Sink) error {
	return func(ctx context.Context, out podconfig.Sink) error {
		decoder := &manifest.Decoder{NodeName: "gw-17"}
		for n := 1; n <= 2; n++ {
			text := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: "web:%d"}]}}`, n)
			pod, err := decoder.Pod([]byte(text), manifest.Origin{Location: "bus"})
			if err != nil {
				return err
			}
			if err := out.Submit(ctx, podconfig.Snapshot(pod)); err != nil {
				return err
			}
			wait(ctx, root, n)
		}
		<-ctx.Done()
		return nil
	}
}
