// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
)

// The goals of one event among 10,000 pods, end to end.
const (
	goalNanoseconds = 100_000
	goalBytes       = 20 << 10
)

// BenchmarkEvent measures an event of an API server, a new status of a pod among many, from the
// watch through reflector, source and Store.Merge to the consumer. naive is the kubelet's way: a
// snapshot of the complete list for every event. It uses this package's store, which compares only
// UID and version of unchanged pods. json receives the event as JSON over HTTP, and includes its
// decoding.
func BenchmarkEvent(b *testing.B) {
	for _, n := range []int{10, 110, 1_000, 10_000} {
		b.Run(fmt.Sprintf("keelson/pods=%d", n), func(b *testing.B) { benchmarkSource(b, n) })
		b.Run(fmt.Sprintf("naive/pods=%d", n), func(b *testing.B) { benchmarkNaive(b, n) })
	}
	b.Run("json/pods=10000", func(b *testing.B) { benchmarkWire(b, 10_000) })
}

// feed is an API server without a network.
type feed struct {
	pods  []*v1.Pod
	watch *watch.FakeWatcher
}

func newFeed(n int) *feed {
	f := &feed{watch: watch.NewFakeWithOptions(watch.FakeOptions{})}
	for i := range n {
		f.pods = append(f.pods, realisticPod(i))
	}
	return f
}

func (f *feed) List(context.Context, metav1.ListOptions) (*v1.PodList, error) {
	l := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, p := range f.pods {
		l.Items = append(l.Items, *p)
	}
	return l, nil
}

func (f *feed) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return f.watch, nil
}

// cpuTime returns the CPU time of this process, the relevant number on a busy machine.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// change is the i-th status of a pod.
func change(p *v1.Pod, i int) {
	p.Status.ContainerStatuses[2].RestartCount = int32(i)
	p.ResourceVersion = strconv.Itoa(1_000 + i)
}

// consume runs a source until the benchmark ends, and returns a func that waits for the next
// update.
func consume(b *testing.B, source podconfig.Source) (next func()) {
	store, err := podconfig.NewStore(podconfig.StoreOptions{})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	updates, done := make(chan podconfig.Update), make(chan error, 1)
	go func() {
		done <- podconfig.Run(ctx, store, func(ctx context.Context, u podconfig.Update) error {
			select {
			case updates <- u:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, source)
	}()
	b.Cleanup(func() {
		cancel()
		<-done
	})
	<-updates // the first list
	return func() {
		if u := <-updates; u.Op != podconfig.OpReconcile || len(u.Pods) != 1 {
			b.Fatal(u.Op, len(u.Pods))
		}
	}
}

func benchmarkSource(b *testing.B, n int) {
	f := newFeed(n)
	source, err := podwatch.New(podwatch.Config{Pods: f, NodeName: "n", WithoutWatchList: true})
	require.NoError(b, err)
	next, p := consume(b, source), f.pods[n/2].DeepCopy()
	b.ReportAllocs()
	i, before := 0, cpuTime(b)
	for ; b.Loop(); i++ {
		change(p, i+1)
		f.watch.Modify(p)
		next()
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(i), "cpu-ns/op")
	b.ReportMetric(goalNanoseconds, "goal-ns")
	b.ReportMetric(goalBytes, "goal-B")
}

func benchmarkNaive(b *testing.B, n int) {
	f := newFeed(n)
	known := map[string]*v1.Pod{}
	for _, p := range f.pods {
		known[p.Namespace+"/"+p.Name] = p
	}
	next := consume(b, podconfig.SourceFunc(podconfig.SourceAPI, func(ctx context.Context, out podconfig.Sink) error {
		push := func() error {
			pods := make([]*v1.Pod, 0, len(known))
			for _, p := range known {
				pods = append(pods, p)
			}
			return out.Submit(ctx, podconfig.Snapshot(pods...))
		}
		if err := push(); err != nil {
			return err
		}
		for {
			select {
			case e := <-f.watch.ResultChan():
				p, ok := e.Object.(*v1.Pod)
				if !ok {
					return nil
				}
				known[p.Namespace+"/"+p.Name] = p
				if err := push(); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	}))
	p := f.pods[n/2].DeepCopy()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		change(p, i+1)
		f.watch.Modify(p)
		next()
	}
}

// stream answers watches with the events from lines, and lists with pods.
type stream struct {
	list  []byte
	lines chan []byte
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "" {
		_, _ = w.Write(s.list)
		return
	}
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		select {
		case line := <-s.lines:
			_, _ = w.Write(line)
			_ = flush.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func benchmarkWire(b *testing.B, n int) {
	f := newFeed(n)
	list, err := f.List(b.Context(), metav1.ListOptions{})
	require.NoError(b, err)
	list.Kind, list.APIVersion = "PodList", "v1"
	text, err := json.Marshal(list)
	require.NoError(b, err)
	lines := make(chan []byte)
	pipes := &server{} // only for its pipes
	pipes.serve(&stream{list: text, lines: lines})
	b.Cleanup(func() { _ = pipes.http.Close() })
	transport := &http.Transport{DialContext: pipes.dial}
	core, err := typedcorev1.NewForConfigAndClient(&rest.Config{Host: "http://api.example", QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, &http.Client{Transport: transport})
	require.NoError(b, err)
	source, err := podwatch.New(podwatch.Config{Pods: core.Pods(""), NodeName: "n", WithoutWatchList: true})
	require.NoError(b, err)
	next, p := consume(b, source), typed(f.pods[n/2])
	var events [100][]byte
	for i := range events {
		change(p, i+1)
		line, err := json.Marshal(event{Type: "MODIFIED", Object: p})
		require.NoError(b, err)
		events[i] = line
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		lines <- events[i%len(events)]
		next()
	}
}

// realisticPod has three containers with probes, env and mounts, and a full status: about 9 KB on
// the heap.
func realisticPod(i int) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("web-", i), Namespace: "ns", UID: types.UID(fmt.Sprintf("7d1f2c3a-0000-4000-8000-%012d", i)), ResourceVersion: "1000",
		Labels:          map[string]string{"app": "web", "pod-template-hash": "5d59d67564"},
		Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "owner", Controller: new(true)}},
	}}
	p.Spec.NodeName, p.Spec.ServiceAccountName, p.Spec.TerminationGracePeriodSeconds = "n", "default", new(int64(30))
	for _, key := range []string{"not-ready", "unreachable"} {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: "node.kubernetes.io/" + key,
			Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))})
	}
	for _, name := range []string{"config", "data", "kube-api-access"} {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}, DefaultMode: new(int32(420))}}})
	}
	for _, name := range []string{"web", "proxy", "logs"} {
		p.Spec.Containers = append(p.Spec.Containers, realisticContainer(name))
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: name, Ready: true, Started: new(true), Image: "registry.example/" + name + ":1.2.3",
			ImageID: "registry.example/" + name + "@sha256:0123", ContainerID: "containerd://" + name,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Unix(1_700_000_000, 0)}}})
	}
	for _, c := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
			Type: c, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(1_700_000_000, 0)})
	}
	p.Status.Phase, p.Status.PodIPs = v1.PodRunning, []v1.PodIP{{IP: "10.0.0.1"}}
	return p
}

func realisticContainer(name string) v1.Container {
	c := v1.Container{Name: name, Image: "registry.example/" + name + ":1.2.3", Args: []string{"--v=2", "--listen=:8080"},
		Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP}},
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("64Mi")}},
		LivenessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz", Scheme: v1.URISchemeHTTP}},
			PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3},
		ImagePullPolicy: v1.PullIfNotPresent,
		SecurityContext: &v1.SecurityContext{RunAsNonRoot: new(true), Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}}}
	for _, key := range []string{"POD_NAME", "LOG_LEVEL"} {
		c.Env = append(c.Env, v1.EnvVar{Name: key, Value: "value"})
	}
	for _, key := range []string{"config", "data"} {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: key, MountPath: "/mnt/" + key})
	}
	return c
}
