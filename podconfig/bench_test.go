// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"fmt"
	"reflect"
	goruntime "runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

// BenchmarkMergeOneEvent measures a change of a single pod among many: its status, as in most
// events of an API server, its labels or its image. naive merges as the kubelet does (in the kubelet 2.5
// ms, 465 KB at 110 pods).
func BenchmarkMergeOneEvent(b *testing.B) {
	for _, n := range []int{10, 110, 1_000, 10_000} {
		b.Run(fmt.Sprintf("status/pods=%d", n), func(b *testing.B) { benchmarkUpsert(b, n, setStatus) })
		b.Run(fmt.Sprintf("labels/pods=%d", n), func(b *testing.B) { benchmarkUpsert(b, n, setLabel) })
		b.Run(fmt.Sprintf("image/pods=%d", n), func(b *testing.B) { benchmarkUpsert(b, n, setImage) })
		b.Run(fmt.Sprintf("naive/pods=%d", n), func(b *testing.B) { benchmarkNaive(b, n) })
	}
}

// BenchmarkMergeSnapshot measures a whole snapshot with a single changed pod, as after a relist.
// The goal is 20 ms at 10,000 pods of an API server, whose versions save comparisons. Pods of other
// sources are all compared.
func BenchmarkMergeSnapshot(b *testing.B) {
	for _, n := range []int{10, 110, 1_000, 10_000} {
		for _, source := range []string{podconfig.SourceAPI, podconfig.SourceFile} {
			b.Run(fmt.Sprintf("%s/pods=%d", source, n), func(b *testing.B) {
				store := newStore(b, podconfig.StoreOptions{})
				merge(b, store, source, podconfig.Snapshot(realisticPods(n)...))
				again, i := realisticPods(n), 0
				b.ReportAllocs()
				for b.Loop() {
					i++
					setImage(again[n/2], i)
					if got := merge(b, store, source, podconfig.Snapshot(again...)); len(got) != 1 {
						b.Fatal(brief(got))
					}
				}
				if n == 10_000 {
					b.ReportMetric(20e6, "goal-ns")
				}
			})
		}
		b.Run(fmt.Sprintf("naive/pods=%d", n), func(b *testing.B) { benchmarkNaive(b, n) })
	}
}

// BenchmarkMergeAdd measures a new pod, copied for the store and, unless output is shared, for the
// consumer.
func BenchmarkMergeAdd(b *testing.B) {
	for name, o := range map[string]podconfig.StoreOptions{"copied": {}, "shared": podconfig.Shared(podconfig.StoreOptions{})} {
		b.Run(name, func(b *testing.B) {
			store, p := newStore(b, o), realisticPod(0)
			b.ReportAllocs()
			for b.Loop() {
				merge(b, store, podconfig.SourceAPI, podconfig.Upsert(p))
				merge(b, store, podconfig.SourceAPI, podconfig.Remove(p.UID))
			}
		})
	}
}

func BenchmarkQueuePushPop(b *testing.B) {
	q, p := podconfig.NewQueue(), realisticPod(0)
	u := podconfig.Update{Op: podconfig.OpUpdate, Source: podconfig.SourceAPI, Pods: []*v1.Pod{p}}
	b.ReportAllocs()
	for b.Loop() {
		if err := q.Push(b.Context(), u); err != nil {
			b.Fatal(err)
		}
		q.Pop()
	}
}

func benchmarkUpsert(b *testing.B, n int, edit func(p *v1.Pod, i int)) {
	store := newStore(b, podconfig.StoreOptions{})
	pods := realisticPods(n)
	merge(b, store, podconfig.SourceAPI, podconfig.Snapshot(pods...))
	changing, i := pods[n/2], 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		edit(changing, i)
		if got := merge(b, store, podconfig.SourceAPI, podconfig.Upsert(changing)); len(got) != 1 {
			b.Fatal(brief(got))
		}
	}
}

func setLabel(p *v1.Pod, i int) {
	p.Labels["round"] = fmt.Sprint(i)
	p.ResourceVersion = fmt.Sprint(1_000 + i)
}

func setImage(p *v1.Pod, i int) {
	p.Spec.Containers[2].Image = fmt.Sprint("registry.example/logs:", i)
	p.ResourceVersion = fmt.Sprint(1_000 + i)
}

func setStatus(p *v1.Pod, i int) {
	p.Status.ContainerStatuses[2].RestartCount = int32(i)
	p.ResourceVersion = fmt.Sprint(1_000 + i)
}

// benchmarkNaive is the reference: the full snapshot for every event, each pod compared with
// reflect, changed pods copied.
func benchmarkNaive(b *testing.B, n int) {
	known := map[types.UID]*v1.Pod{}
	for _, p := range realisticPods(n) {
		known[p.UID] = p
	}
	pods := realisticPods(n)
	changing, i := pods[n/2], 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		setStatus(changing, i)
		if got := naiveMerge(known, pods); len(got) != 1 {
			b.Fatal(len(got))
		}
	}
}

func naiveMerge(known map[types.UID]*v1.Pod, snapshot []*v1.Pod) []*v1.Pod {
	var changed []*v1.Pod
	present := make(map[types.UID]bool, len(snapshot))
	for _, in := range snapshot {
		present[in.UID] = true
		old := known[in.UID]
		if !reflect.DeepEqual(old.Spec, in.Spec) || !reflect.DeepEqual(old.Labels, in.Labels) ||
			!reflect.DeepEqual(old.Annotations, in.Annotations) || !reflect.DeepEqual(old.Status, in.Status) {
			known[in.UID] = in.DeepCopy()
			changed = append(changed, in.DeepCopy())
		}
	}
	for uid := range known {
		if !present[uid] {
			delete(known, uid)
		}
	}
	return changed
}

func realisticPods(n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = realisticPod(i)
	}
	return pods
}

// realisticPod has three containers with probes, env and mounts, and a full status: about 9 KB on
// the heap.
func realisticPod(i int) *v1.Pod {
	p := pod(fmt.Sprint("web-", i), types.UID(fmt.Sprintf("7d1f2c3a-0000-4000-8000-%012d", i)), version("1000"),
		label("app", "web"), label("pod-template-hash", "5d59d67564"), label("round", "0"),
		annotation("prometheus.io/scrape", "true"), annotation("prometheus.io/port", "8080"))
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "owner", Controller: new(bool)}}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "controller", FieldsV1: metav1.NewFieldsV1(string(make([]byte, 400)))}}
	p.Spec.Containers = nil
	p.Spec.NodeName, p.Spec.ServiceAccountName = "node", "default"
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	p.Spec.Tolerations = []v1.Toleration{
		{Key: "node.kubernetes.io/not-ready", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64)},
		{Key: "node.kubernetes.io/unreachable", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64)},
	}
	for _, name := range []string{"config", "data", "kube-api-access"} {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}, DefaultMode: new(int32)},
		}})
	}
	for _, name := range []string{"web", "proxy", "logs"} {
		p.Spec.Containers = append(p.Spec.Containers, realisticContainer(name))
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: name, Ready: true, Started: new(bool), Image: "registry.example/" + name + ":1.2.3",
			ImageID: "registry.example/" + name + "@sha256:0123", ContainerID: "containerd://" + name,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Unix(1_700_000_000, 0)}},
		})
	}
	for _, c := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
			Type: c, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(1_700_000_000, 0),
		})
	}
	p.Status.Phase, p.Status.PodIPs = v1.PodRunning, []v1.PodIP{{IP: "10.0.0.1"}}
	return p
}

func realisticContainer(name string) v1.Container {
	probe := &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz", Scheme: v1.URISchemeHTTP}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	amounts := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	c := v1.Container{
		Name: name, Image: "registry.example/" + name + ":1.2.3", Args: []string{"--v=2", "--listen=:8080"},
		Ports:         []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP}},
		Resources:     v1.ResourceRequirements{Requests: amounts("100m", "64Mi")},
		LivenessProbe: probe, ImagePullPolicy: v1.PullIfNotPresent,
		SecurityContext: &v1.SecurityContext{RunAsNonRoot: new(bool), Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}},
	}
	for _, key := range []string{"POD_NAME", "LOG_LEVEL"} {
		c.Env = append(c.Env, v1.EnvVar{Name: key, Value: "value"})
	}
	for _, key := range []string{"config", "data"} {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: key, MountPath: "/mnt/" + key})
	}
	return c
}

// TestRealisticPodHasARealisticSize checks the input of the benchmarks.
func TestRealisticPodHasARealisticSize(t *testing.T) {
	const rounds = 1_000
	p := realisticPod(0)
	copies := make([]*v1.Pod, rounds)
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	for i := range copies {
		copies[i] = p.DeepCopy()
	}
	goruntime.ReadMemStats(&after)
	require.InDelta(t, 9_000, (after.TotalAlloc-before.TotalAlloc)/rounds, 2_000)
}
