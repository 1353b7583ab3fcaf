// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

type podOption func(*v1.Pod)

// testPod has a container for each name given with containers, else "main"; restart policy Always, phase Pending.
func testPod(uid types.UID, options ...podOption) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid, Generation: 1},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, NodeName: "node",
			Containers: []v1.Container{{Name: "main", Image: "main:1"}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSBestEffort},
	}
	for _, o := range options {
		o(pod)
	}
	return pod
}

func containers(names ...string) podOption {
	return func(p *v1.Pod) {
		p.Spec.Containers = nil
		for _, name := range names {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Image: name + ":1"})
		}
	}
}

func initContainers(names ...string) podOption {
	return func(p *v1.Pod) {
		for _, name := range names {
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: name, Image: name + ":1"})
		}
	}
}

func sidecar(name string) podOption {
	return func(p *v1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{
			Name: name, RestartPolicy: new(v1.ContainerRestartPolicyAlways),
		})
	}
}

func policy(rp v1.RestartPolicy) podOption { return func(p *v1.Pod) { p.Spec.RestartPolicy = rp } }

func gate(t v1.PodConditionType) podOption {
	return func(p *v1.Pod) {
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, v1.PodReadinessGate{ConditionType: t})
	}
}

// static makes the pod a static pod from a file; its UID is its hash.
func static(p *v1.Pod) {
	p.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": string(p.UID)}
}

func with(pod *v1.Pod, options ...podOption) *v1.Pod {
	pod = pod.DeepCopy()
	for _, o := range options {
		o(pod)
	}
	return pod
}

// The states of one container, as a runtime tells them.
func waiting(name, reason string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, Image: name + ":1", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}}
}

func running(name string) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: name, Image: name + ":1", ContainerID: "fake://" + name, Started: new(true),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Unix(1_700_000_000, 0)}},
	}
}

func ready(name string) v1.ContainerStatus {
	s := running(name)
	s.Ready = true
	return s
}

func exited(name string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: name, Image: name + ":1", ContainerID: "fake://" + name,
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: code, Reason: "Completed", StartedAt: metav1.Unix(1_700_000_000, 0), FinishedAt: metav1.Unix(1_700_000_060, 0),
		}},
	}
}

func status(phase v1.PodPhase, containers ...v1.ContainerStatus) v1.PodStatus {
	return v1.PodStatus{Phase: phase, ContainerStatuses: containers}
}

func condition(s v1.PodStatus, t v1.PodConditionType) *v1.PodCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

func conditionStatus(s v1.PodStatus, t v1.PodConditionType) v1.ConditionStatus {
	if c := condition(s, t); c != nil {
		return c.Status
	}
	return "missing"
}

func newServer(t testing.TB, o statustest.Options) *statustest.Server {
	t.Helper()
	server, err := statustest.New(o)
	require.NoError(t, err)
	return server
}

func newManager(t testing.TB, o statusmanager.Options) *statusmanager.Manager {
	t.Helper()
	m, err := statusmanager.New(o)
	require.NoError(t, err)
	return m
}

// start runs m until the test ends or stop is called.
func start(t testing.TB, m *statusmanager.Manager) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return stop
}

// node is a running manager that observes every change of its server.
type node struct {
	*statusmanager.Manager
	t      testing.TB
	server *statustest.Server
	stop   func()
}

// newNode has no jitter unless o has.
func newNode(t testing.TB, so statustest.Options, o statusmanager.Options) *node {
	server := newServer(t, so)
	if o.Patcher == nil {
		o.Patcher = server
	}
	if o.Jitter == nil {
		o.Jitter = func(d time.Duration) time.Duration { return d }
	}
	m := newManager(t, o)
	server.Watch(m.Observed)
	return &node{Manager: m, t: t, server: server, stop: start(t, m)}
}

// set must be believed.
func (n *node) set(pod *v1.Pod, s v1.PodStatus) bool {
	n.t.Helper()
	changed, err := n.SetPodStatus(pod, s)
	require.NoError(n.t, err)
	return changed
}

// api returns the status stored on the server.
func (n *node) api(uid types.UID) v1.PodStatus {
	n.t.Helper()
	pod := n.server.Get(uid)
	require.NotNil(n.t, pod, "pod %s is gone", uid)
	return pod.Status
}

// settle lets time pass until nothing has to be done that is not far off.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func uids(prefix string, n int) []types.UID {
	out := make([]types.UID, n)
	for i := range out {
		out[i] = types.UID(fmt.Sprintf("%s-%03d", prefix, i))
	}
	return out
}
