// SPDX-License-Identifier: Apache-2.0

package podsapi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/podsapi"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// A node with a pod, and a client that watches the pod until it runs.
func Example() {
	if err := run(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ADDED web-gw-17
	// Running
}

func run() error {
	root, err := os.MkdirTemp("", "pods")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	rt, err := fake.New(fake.Options{})
	if err != nil {
		return err
	}
	agent, err := node.New(node.Options{
		NodeName: "gw-17", Root: root, Runtime: rt,
		Sources: []podconfig.Source{podconfig.SourceFunc("bus", bus)},
		Features: func(h *feature.Host) []feature.Feature {
			pods, err := podsapi.New(h)
			if err != nil {
				fmt.Println(err)
			}
			return []feature.Feature{pods}
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = agent.Run(ctx) })
	return watch(ctx, filepath.Join(root, "pods-api", "pods-api.sock"))
}

// watch prints the name of the first pod, and its phase when it runs.
func watch(ctx context.Context, socket string) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true))) // the node may not have begun
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		stream, err := api.NewPodsClient(conn).WatchPods(ctx, &api.WatchPodsRequest{})
		if err != nil {
			return err
		}
		err = show(stream)
		if status.Code(err) != codes.Unavailable { // a source of the node has not delivered its pods
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func show(stream grpc.ServerStreamingClient[api.WatchPodsEvent]) error {
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		var pod v1.Pod
		if err := pod.Unmarshal(event.GetPod()); err != nil {
			return err
		}
		if event.GetType() == api.EventType_ADDED {
			fmt.Println(event.GetType(), pod.Name)
		}
		if pod.Status.Phase == v1.PodRunning {
			fmt.Println(pod.Status.Phase)
			return nil
		}
	}
}

// bus delivers a pod.
func bus(ctx context.Context, out podconfig.Sink) error {
	decoder := &manifest.Decoder{NodeName: "gw-17"}
	pod, err := decoder.Pod([]byte(`{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: web}]}}`), manifest.Origin{Location: "bus"})
	if err != nil {
		return err
	}
	if err := out.Submit(ctx, podconfig.Snapshot(pod)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
