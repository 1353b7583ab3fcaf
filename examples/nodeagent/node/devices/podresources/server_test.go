// SPDX-License-Identifier: Apache-2.0

package podresources_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/podresources"
	"github.com/keelson-dev/keelson/internal/grpcunix"
)

const gpu = "example.com/gpu"

// book is a podresources.Devices.
type book struct{}

func (book) Of(uid types.UID) []ledger.Holding {
	if uid != "u" {
		return nil
	}
	hold := func(container string, devices ...ledger.Device) ledger.Holding {
		return ledger.Holding{Slot: ledger.Slot{Pod: uid, Container: container, Resource: gpu}, Devices: devices}
	}
	return []ledger.Holding{
		hold("init", ledger.Device{ID: "a"}), hold("side", ledger.Device{ID: "b", NUMA: []int64{0, 1}}), hold("main", ledger.Device{ID: "a"}, ledger.Device{ID: "c"}),
	}
}

func (book) Healthy() map[string][]ledger.Device {
	return map[string][]ledger.Device{gpu: {{ID: "a", Healthy: true}, {ID: "b", Healthy: true, NUMA: []int64{1}}}}
}

func pods() []*v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "init"}, {Name: "side", RestartPolicy: &always}},
		Containers:     []v1.Container{{Name: "main"}, {Name: "plain"}},
	}}
	pod.Name, pod.Namespace, pod.UID = "web", "default", "u"
	return []*v1.Pod{pod}
}

func serve(t *testing.T) (client api.PodResourcesListerClient, path string, failures *atomic.Int32) {
	path, failures = filepath.Join(t.TempDir(), "pod-resources", "kubelet.sock"), &atomic.Int32{}
	server, err := podresources.Listen(path, podresources.Options{Pods: pods, Devices: book{}, Called: func(_ string, err error) {
		if err != nil {
			failures.Add(1)
		}
	}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx) }()
	conn, err := grpcunix.NewClient(path, 1<<20)
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		stop()
		require.NoError(t, <-done)
	})
	return api.NewPodResourcesListerClient(conn), path, failures
}

const web = `name: "web" namespace: "default"
containers: { name: "side" devices: { resource_name: "example.com/gpu" device_ids: "b" topology: { nodes: {} nodes: { ID: 1 } } } }
containers: { name: "main" devices: { resource_name: "example.com/gpu" device_ids: "a" } devices: { resource_name: "example.com/gpu" device_ids: "c" } }
containers: { name: "plain" }`

func TestPodResources(t *testing.T) {
	client, path, failures := serve(t)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	want := &api.PodResources{}
	require.NoError(t, prototext.Unmarshal([]byte(web), want))
	list, err := client.List(t.Context(), &api.ListPodResourcesRequest{})
	require.NoError(t, err)
	require.Len(t, list.PodResources, 1)
	require.Equal(t, prototext.Format(want), prototext.Format(list.PodResources[0]))
	got, err := client.Get(t.Context(), &api.GetPodResourcesRequest{PodName: "web", PodNamespace: "default"})
	require.NoError(t, err)
	require.Equal(t, prototext.Format(want), prototext.Format(got.PodResources))
	_, err = client.Get(t.Context(), &api.GetPodResourcesRequest{PodName: "web", PodNamespace: "other"})
	require.ErrorContains(t, err, "pod web in namespace other not found")
	require.EqualValues(t, 1, failures.Load())
	allocatable, err := client.GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{})
	require.NoError(t, err)
	require.Len(t, allocatable.Devices, 2)
	require.Equal(t, []string{"b"}, allocatable.Devices[1].DeviceIds)
	require.EqualValues(t, 1, allocatable.Devices[1].Topology.Nodes[0].ID)
}

// A client that calls without a pause is refused from some call on.
func TestRateOfCalls(t *testing.T) {
	client, _, _ := serve(t)
	for n := range 1_000_000 {
		_, err := client.List(t.Context(), &api.ListPodResourcesRequest{})
		if err == nil {
			continue
		}
		require.GreaterOrEqual(t, n, 10)
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.ErrorContains(t, err, "rejected by rate limit")
		return
	}
	t.Fatal("no call was refused")
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]podresources.Options{"Options.Pods": {Devices: book{}}, "Options.Devices": {Pods: pods}} {
		_, err := podresources.Listen(filepath.Join(t.TempDir(), "s"), o)
		require.ErrorContains(t, err, want)
	}
	_, err := podresources.Listen("s", podresources.Options{})
	require.ErrorContains(t, err, "absolute path")
}

func Example() {
	dir, err := os.MkdirTemp("", "resources")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	server, err := podresources.Listen(filepath.Join(dir, "kubelet.sock"), podresources.Options{Pods: pods, Devices: book{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := server.List(context.Background(), nil)
	for _, c := range list.PodResources[0].Containers {
		fmt.Println(c.Name, len(c.Devices), err)
	}
	// Output:
	// side 1 <nil>
	// main 2 <nil>
	// plain 0 <nil>
}

func TestTheListOfOldClients(t *testing.T) {
	_, path, failures := serve(t)
	conn, err := grpcunix.NewClient(path, 1<<20)
	require.NoError(t, err)
	defer conn.Close()
	answer, err := v1alpha1.NewPodResourcesListerClient(conn).List(t.Context(), &v1alpha1.ListPodResourcesRequest{})
	require.NoError(t, err)
	want := &v1alpha1.ListPodResourcesResponse{}
	require.NoError(t, prototext.Unmarshal([]byte(`pod_resources: {
		name: "web" namespace: "default"
		containers: { name: "main" devices: { resource_name: "example.com/gpu" device_ids: "a" } devices: { resource_name: "example.com/gpu" device_ids: "c" } }
		containers: { name: "plain" }
	}`), want))
	require.Equal(t, prototext.Format(want), prototext.Format(answer))
	require.Zero(t, failures.Load())
}
