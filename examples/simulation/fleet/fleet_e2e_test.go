// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/examples/simulation/fleet"
	"github.com/keelson-dev/keelson/internal/apiservertest"
)

var apiserver apiservertest.Shared

func TestMain(m *testing.M) { os.Exit(apiserver.Main(m)) }

// patience is the longest wait for an event that is certain.
const patience = time.Minute

// eventually waits until all pods of a namespace satisfy a condition, and returns the pods by name.
func eventually(t *testing.T, core corev1.CoreV1Interface, namespace string, want func(pods map[string]*v1.Pod) error) map[string]*v1.Pod {
	t.Helper()
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		list, err := core.Pods(namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		pods := map[string]*v1.Pod{}
		for i := range list.Items {
			pods[list.Items[i].Name] = &list.Items[i]
		}
		if last = want(pods); last == nil {
			return pods
		}
	}
	require.NoError(t, last)
	return nil
}

func isReady(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// bound returns a pod on a node, with annotations without their prefix: "runs", "1s".
func bound(name, node string, annotations ...string) *v1.Pod {
	pod := apiservertest.Pod("fleet", name, node)
	pod.Annotations = map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations["simulation.keelson.dev/"+annotations[i]] = annotations[i+1]
	}
	return pod
}

func TestPodsLive(t *testing.T) {
	server := apiserver.Get(t)
	core, err := server.Core()
	require.NoError(t, err)
	require.NoError(t, server.CreateNamespace(t.Context(), "fleet"))
	fleet.Start(t, server.Config(), 10)
	var pods []*v1.Pod
	for i := range 90 {
		pods = append(pods, bound(fmt.Sprintf("stays-%d", i), fmt.Sprintf("sim-%d", i%10)))
	}
	job := bound("job", "sim-1")
	job.Spec.RestartPolicy = v1.RestartPolicyNever
	fails := bound("fails", "sim-2", "runs", "300ms", "exit-code", "3")
	fails.Spec.RestartPolicy = v1.RestartPolicyNever
	probed := bound("never-ready", "sim-3", "ready-after", "never")
	probed.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
	starts := bound("has-init", "sim-5")
	starts.Spec.InitContainers = []v1.Container{{Name: "first", Image: "localhost/first:1"}}
	mounts := bound("has-volume", "sim-6")
	mounts.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}}}}}
	mounts.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
	pods = append(pods, job, fails, probed, starts, mounts, bound("crashes", "sim-4", "crashes", "1"),
		bound("wrong", "sim-7", "main.runs", "soon"), bound("no-probe", "sim-8", "ready-after", "1s"))
	_, err = server.CreatePods(t.Context(), pods...)
	require.NoError(t, err)
	phases := map[string]v1.PodPhase{"job": v1.PodSucceeded, "fails": v1.PodFailed, "wrong": v1.PodFailed, "no-probe": v1.PodFailed}
	seen := eventually(t, core, "fleet", func(pods map[string]*v1.Pod) error {
		for name, pod := range pods {
			want, ends := phases[name]
			if !ends {
				want = v1.PodRunning
			}
			if pod.Status.Phase != want || want == v1.PodRunning && name != "never-ready" && !isReady(pod) {
				return fmt.Errorf("pod %s is %s, ready: %t: %+v", name, pod.Status.Phase, isReady(pod), pod.Status)
			}
		}
		return nil
	})
	assert.Equal(t, int32(3), seen["fails"].Status.ContainerStatuses[0].State.Terminated.ExitCode)
	assert.Equal(t, int32(1), seen["crashes"].Status.ContainerStatuses[0].RestartCount)
	assert.False(t, isReady(seen["never-ready"]))
	assert.Contains(t, seen["wrong"].Status.Message, `annotation simulation.keelson.dev/main.runs: "soon"`)
	assert.Contains(t, seen["no-probe"].Status.Message, "container main has no probe")
	addresses := map[string]string{}
	for name, pod := range seen {
		if pod.Status.Phase != v1.PodRunning {
			continue
		}
		require.True(t, strings.HasPrefix(pod.Status.PodIP, "100.64."), pod.Status.PodIP)
		assert.Empty(t, addresses[pod.Status.PodIP], "the address of pod %s", name)
		addresses[pod.Status.PodIP] = name
		assert.Equal(t, "198.18.0."+strings.TrimPrefix(pod.Spec.NodeName, "sim-"), pod.Status.HostIP)
	}
	nodes, err := core.Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, nodes.Items, 10)
	require.NoError(t, core.Pods("fleet").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	eventually(t, core, "fleet", func(pods map[string]*v1.Pod) error {
		if len(pods) > 0 {
			return fmt.Errorf("%d pods are left", len(pods))
		}
		return nil
	})
}

// Without a scheduler on the API server, the fleet binds pods as they fit.
func TestPodsAreScheduled(t *testing.T) {
	server := apiserver.Get(t)
	core, err := server.Core()
	require.NoError(t, err)
	require.NoError(t, server.CreateNamespace(t.Context(), "scheduled"))
	fleet.Start(t, server.Config(), 2)
	var pods []*v1.Pod
	for i := range 5 {
		pod := bound(fmt.Sprintf("big-%d", i), "")
		pod.Namespace = "scheduled"
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("15")}
		pods = append(pods, pod)
	}
	gated, foreign := bound("gated", ""), bound("foreign", "")
	gated.Namespace, foreign.Namespace = "scheduled", "scheduled"
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}}
	foreign.Spec.SchedulerName = "another"
	_, err = server.CreatePods(t.Context(), append(pods, gated, foreign)...)
	require.NoError(t, err)
	running := func(pods map[string]*v1.Pod) (names []string, refused *v1.Pod) {
		for name, pod := range pods {
			for _, c := range pod.Status.Conditions {
				if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
					refused = pod
				}
			}
			if isReady(pod) {
				names = append(names, name)
			}
		}
		return names, refused
	}
	var first *v1.Pod
	eventually(t, core, "scheduled", func(pods map[string]*v1.Pod) error {
		names, refused := running(pods)
		if first = refused; len(names) != 4 || refused == nil {
			return fmt.Errorf("running: %q, refused: %v", names, refused)
		}
		for _, name := range names {
			if name != first.Name {
				first = pods[name]
			}
		}
		if message := refused.Status.Conditions[0].Message; !strings.Contains(message, "2 Insufficient cpu") {
			return fmt.Errorf("the message is %q", message)
		}
		return nil
	})
	require.NoError(t, core.Pods("scheduled").Delete(t.Context(), first.Name, metav1.DeleteOptions{}))
	eventually(t, core, "scheduled", func(pods map[string]*v1.Pod) error {
		names, refused := running(pods)
		if len(names) != 4 || refused != nil || pods[first.Name] != nil {
			return fmt.Errorf("running: %q, refused: %v", names, refused)
		}
		return nil
	})
	left := eventually(t, core, "scheduled", func(map[string]*v1.Pod) error { return nil })
	assert.Empty(t, left["gated"].Spec.NodeName)
	assert.Empty(t, left["foreign"].Spec.NodeName)
}
