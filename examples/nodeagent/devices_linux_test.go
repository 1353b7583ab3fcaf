// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver && !nodevices

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/keelson-dev/keelson/internal/grpcunix"
)

// sampleResource is the resource of Kubernetes' sample device plug-in. Its devices are Dev-1 and Dev-2.
// For a device ID the plug-in makes the file /tmp/ID and mounts the file in the container.
const sampleResource = "example.com/resource"

// samplePlugIn starts the plug-in with folder in the place of /var/lib/kubelet. stop kills it.
func samplePlugIn(t *testing.T, folder string) (stop func()) {
	t.Helper()
	require.NoError(t, os.MkdirAll("/var/lib/kubelet", 0o755))
	script := fmt.Sprintf("mount --bind %s /var/lib/kubelet && exec %s", folder, os.Getenv("KEELSON_SAMPLE_DEVICE_PLUGIN"))
	plugin := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script)
	log := &tail{}
	plugin.Stderr = log
	require.NoError(t, plugin.Start())
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		require.NoError(t, plugin.Process.Kill())
		_ = plugin.Wait()
		if t.Failed() {
			t.Logf("the plug-in's log:\n%s", log)
		}
	}
	t.Cleanup(stop)
	return stop
}

// devicesOnNode returns the devices of each container and the healthy devices, as the PodResources API
// lists them: "a=Dev-1 b=Dev-2" and "Dev-1 Dev-2".
func (s *station) devicesOnNode() (held, healthy string) {
	s.Helper()
	conn, err := grpcunix.NewClient(filepath.Join(s.root, "pod-resources", "kubelet.sock"), 1<<20)
	require.NoError(s, err)
	defer conn.Close()
	client := podresources.NewPodResourcesListerClient(conn)
	list, err := client.List(s.Context(), &podresources.ListPodResourcesRequest{})
	if err != nil {
		return err.Error(), err.Error()
	}
	all, err := client.GetAllocatableResources(s.Context(), &podresources.AllocatableResourcesRequest{})
	require.NoError(s, err)
	var h, f []string
	for _, pod := range list.PodResources {
		for _, d := range pod.Containers[0].Devices {
			h = append(h, strings.TrimSuffix(pod.Name, "-n")+"="+strings.Join(d.DeviceIds, ","))
		}
	}
	for _, d := range all.Devices {
		f = append(f, strings.Join(d.DeviceIds, ","))
	}
	return strings.Join(h, " "), strings.Join(f, " ")
}

// lists waits until the PodResources API lists the devices.
func (s *station) lists(held, healthy string) {
	s.Helper()
	s.eventually(fmt.Sprintf("containers have %q of %q", held, healthy), func() bool {
		h, f := s.devicesOnNode()
		return h == held && f == healthy
	})
}

// slowlyWithPlugIn skips t without KEELSON_E2E=1 or without the sample plug-in.
func slowlyWithPlugIn(t *testing.T) {
	t.Helper()
	slowly(t)
	if os.Getenv("KEELSON_SAMPLE_DEVICE_PLUGIN") == "" {
		t.Skip("KEELSON_SAMPLE_DEVICE_PLUGIN is not set: see e2e/program.sh")
	}
}

// An unmodified device plug-in serves a node without an API server. Agent and plug-in are killed and
// started again, in both orders, and the pods keep their devices.
func TestDevicePlugIn(t *testing.T) {
	slowlyWithPlugIn(t)
	c := containerd.Get(t)
	s := newStation(t, on(c.Endpoint(), c))
	kubelet := filepath.Join(s.dir, "k")
	flags := []string{"--device-plugin-dir", filepath.Join(kubelet, "device-plugins"), "--keep-pods"}
	write := func(name, device string) {
		s.write(name+".yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: localhost/busybox:1
    command: [/bin/sh, -c, "test -e /tmp/%s && sleep 1000"]
    resources: {limits: {%s: 1}}
`, name, device, sampleResource))
	}
	s.start(flags...)
	stop := samplePlugIn(t, kubelet)
	s.lists("", "Dev-1 Dev-2")
	write("a", "Dev-1")
	s.waitPhase("a-n", v1.PodRunning)
	write("b", "Dev-2")
	s.waitPhase("b-n", v1.PodRunning)
	s.lists("a=Dev-1 b=Dev-2", "Dev-1 Dev-2")
	write("c", "Dev-1")
	refused := s.waitPhase("c-n", v1.PodFailed)
	require.Equal(t, "UnexpectedAdmissionError", refused.Status.Reason)
	s.remove("c.yaml")

	// The agent is killed: the plug-in registers again with the next agent.
	s.kill()
	s.start(flags...)
	s.lists("a=Dev-1 b=Dev-2", "Dev-1 Dev-2")

	// The plug-in is killed.
	stop()
	s.lists("a=Dev-1 b=Dev-2", "")
	stop = samplePlugIn(t, kubelet)
	s.lists("a=Dev-1 b=Dev-2", "Dev-1 Dev-2")

	// Both are killed, and the plug-in comes late: a new pod waits for it.
	s.kill()
	stop()
	s.remove("b.yaml")
	s.start(flags...)
	write("d", "Dev-2")
	s.eventually("the pod waits", func() bool { return len(s.log.about("pod waits for its admission", "d-n")) > 0 })
	samplePlugIn(t, kubelet)
	s.waitPhase("d-n", v1.PodRunning)
	s.lists("a=Dev-1 d=Dev-2", "Dev-1 Dev-2")
	require.Zero(t, s.waitPhase("a-n", v1.PodRunning).Status.ContainerStatuses[0].RestartCount)
	s.remove("a.yaml")
	s.remove("d.yaml")
	s.lists("", "Dev-1 Dev-2")
}

// An API server sees the devices of the node and of the pods.
func TestDevicePlugInOfAnAPIServer(t *testing.T) {
	slowlyWithPlugIn(t)
	instance := containerd.Get(t)
	c := newClustered(t, on(instance.Endpoint(), instance))
	kubelet := filepath.Join(c.dir, "k")
	c.start(append(c.flags, "--device-plugin-dir", filepath.Join(kubelet, "device-plugins"))...)
	amounts := func(want string) {
		c.Helper()
		c.eventually("the Node has devices: "+want, func() bool {
			node, err := c.core.Nodes().Get(t.Context(), "n", metav1.GetOptions{})
			require.NoError(t, err)
			free, all := node.Status.Allocatable[sampleResource], node.Status.Capacity[sampleResource]
			return free.String()+"/"+all.String() == want
		})
	}
	stop := samplePlugIn(t, kubelet)
	amounts("2/2")
	c.bindPod("web", func(pod *v1.Pod) {
		pod.Spec.HostNetwork = true
		pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", "test -e /tmp/Dev-1 && sleep 1000"}
		list := v1.ResourceList{sampleResource: resource.MustParse("1")}
		pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: list, Requests: list}
	})
	health := func(want v1.ResourceHealthStatus) func(*v1.Pod) bool {
		return func(pod *v1.Pod) bool {
			if !running(pod) || len(pod.Status.ContainerStatuses[0].AllocatedResourcesStatus) == 0 {
				return false
			}
			s := pod.Status.ContainerStatuses[0].AllocatedResourcesStatus[0]
			return s.Name == sampleResource && s.Resources[0].ResourceID == "Dev-1" && s.Resources[0].Health == want
		}
	}
	c.told("web", "has a healthy device", health(v1.ResourceHealthStatusHealthy))
	stop()
	amounts("0/2")
	c.told("web", "has a device of unknown health", health(v1.ResourceHealthStatusUnknown))
	samplePlugIn(t, kubelet)
	amounts("2/2")
	c.told("web", "has a healthy device", health(v1.ResourceHealthStatusHealthy))
	require.NoError(t, c.api.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	c.gone("web")
}

func TestDeviceFlags(t *testing.T) {
	dir := t.TempDir()
	parse := func(args ...string) flags {
		f, err := parseFlags(append([]string{dir, "--root-dir", "/root-dir"}, args...))
		require.NoError(t, err)
		return f
	}
	require.Empty(t, parse().devices.dir)
	require.Equal(t, "/plugins", parse("--device-plugin-dir", "/plugins").devices.dir)
	require.Equal(t, "/root-dir/device-plugins", parse("--kubeconfig", "/k").devices.dir)
	require.Empty(t, parse("--kubeconfig", "/k", "--device-plugin-dir", "none").devices.dir)
	_, err := parseFlags([]string{dir, "--device-plugin-patience", "0s"})
	require.ErrorContains(t, err, "--device-plugin-patience 0s: want more than 0")
}
