// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"context"
	"fmt"

	goruntime "runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

// The goals: the latency added to the network and client-go's decoding, and the memory of an object
// in addition to its content and its connection.
const (
	goalLatency = 200_000 // ns
	goalMemory  = 8 << 10 // bytes
)

// BenchmarkEvent measures the time from sending an event of one of many objects on the server, as
// JSON over HTTP, to the call of Changed. floor is client-go's watch alone.
func BenchmarkEvent(b *testing.B) {
	const among = 100
	b.Run("keelson", func(b *testing.B) {
		s := newServer(b)
		changed := make(chan objects.Ref, among)
		source, names := startObjects(b, volumeapi.FromCore(client(b, s)), among, func(r objects.Ref) { changed <- r }, s.set)
		for _, name := range names {
			_, err := source.ConfigMap(b.Context(), "ns", name)
			require.NoError(b, err)
		}
		benchmarkEvents(b, s, names[among/2], func() { <-changed })
	})
	b.Run("floor", func(b *testing.B) {
		s := newServer(b)
		var watches []watch.Interface
		for i := range among { // gives the server the same work
			name := fmt.Sprint("c", i)
			s.set(configMap(name, "x"))
			w, err := client(b, s).ConfigMaps("ns").Watch(b.Context(), metav1.ListOptions{
				FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: "0"})
			require.NoError(b, err)
			defer w.Stop()
			<-w.ResultChan()
			watches = append(watches, w)
		}
		w := watches[among/2]
		benchmarkEvents(b, s, "c50", func() { <-w.ResultChan() })
	})
}

func benchmarkEvents(b *testing.B, s *server, name string, heard func()) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.set(configMap(name, strconv.Itoa(i)))
		heard()
		s.mu.Lock()
		s.events = s.events[:0] // the server would search all of them
		s.mu.Unlock()
	}
	b.ReportMetric(goalLatency, "goal-ns")
}

// startObjects runs an Objects for a pod with n ConfigMaps until the benchmark ends.
func startObjects(b *testing.B, client volumeapi.ObjectsClient, n int, changed func(objects.Ref), set func(metav1.Object)) (*volumeapi.Objects, []string) {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("c", i))
		if set != nil {
			set(configMap(names[i], "x"))
		}
	}
	source, err := volumeapi.NewObjects(volumeapi.ObjectsOptions{Client: client, Changed: changed})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, <-done)
	})
	source.Register(pod("p", names...))
	return source, names
}

// quiet is an API server without network and without events.
type quiet struct{ corev1.CoreV1Interface }

type quietConfigMaps struct {
	corev1.ConfigMapInterface
}

func (quiet) ConfigMaps(string) corev1.ConfigMapInterface { return quietConfigMaps{} }

func (quietConfigMaps) Get(_ context.Context, name string, _ metav1.GetOptions) (*v1.ConfigMap, error) {
	cm := configMap(name, "x")
	cm.ResourceVersion = "1"
	return cm, nil
}

func (quietConfigMaps) List(_ context.Context, o metav1.ListOptions) (*v1.ConfigMapList, error) {
	cm := configMap(o.FieldSelector[len("metadata.name="):], "x")
	cm.ResourceVersion = "1"
	return &v1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1.ConfigMap{*cm}}, nil
}

func (quietConfigMaps) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFakeWithOptions(watch.FakeOptions{}), nil
}

// BenchmarkMemory measures the memory of another watched object with its content, heap and stacks.
// kubelet is client-go's reflector and store for each object, as in the kubelet. Both are measured
// without connections, which are the same for both. wire is keelson with its connections, HTTP/2
// over TLS, to a real server, which it requires.
func BenchmarkMemory(b *testing.B) {
	const n = 2_000
	b.Run("keelson", func(b *testing.B) { benchmarkMemory(b, n, keelsonWatches(volumeapi.FromCore(quiet{}), "ns")) })
	b.Run("kubelet", func(b *testing.B) { benchmarkMemory(b, n, reflectors) })
	b.Run("wire", func(b *testing.B) {
		node := newE2ENode(b, "memory")
		const n = 500
		for i := range n {
			node.set(fmt.Sprint("c", i), "x")
		}
		client, err := corev1.NewForConfig(node.server.Config())
		require.NoError(b, err)
		benchmarkMemory(b, n, keelsonWatches(volumeapi.FromCore(client), node.name))
	})
}

func benchmarkMemory(b *testing.B, n int, start func(b *testing.B, n int) (stop func())) {
	used := func() uint64 {
		goruntime.GC()
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	var each float64
	for b.Loop() {
		before := used()
		stop := start(b, n)
		each = (float64(used()) - float64(before)) / float64(n)
		stop()
	}
	b.ReportMetric(each, "B/object")
	b.ReportMetric(goalMemory, "goal-B")
}

func keelsonWatches(client volumeapi.ObjectsClient, namespace string) func(*testing.B, int) func() {
	return func(b *testing.B, n int) func() {
		source, err := volumeapi.NewObjects(volumeapi.ObjectsOptions{Client: client})
		require.NoError(b, err)
		ctx, cancel := context.WithCancel(b.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = source.Run(ctx) })
		for i := range n {
			p := pod(fmt.Sprint("p", i), fmt.Sprint("c", i))
			p.Namespace = namespace
			source.Register(p)
		}
		for ref := range source.Snapshot() {
			_, err := source.ConfigMap(ctx, ref.Namespace, ref.Name)
			require.NoError(b, err)
		}
		return func() {
			cancel()
			running.Wait()
		}
	}
}

func reflectors(b *testing.B, n int) func() {
	silent := logr.Discard()
	ctx, cancel := context.WithCancel(logr.NewContext(b.Context(), silent))
	var running sync.WaitGroup
	var synced []cache.Store
	for i := range n {
		name := fmt.Sprint("c", i)
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		selector := "metadata.name=" + name
		r := cache.NewReflectorWithOptions(noWatchList{&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.FieldSelector = selector
				return quietConfigMaps{}.List(ctx, o)
			},
			WatchFuncWithContext: quietConfigMaps{}.Watch,
		}}, &v1.ConfigMap{}, store, cache.ReflectorOptions{Logger: &silent, Name: "x", TypeDescription: "x"})
		running.Go(func() { _ = r.ListAndWatchWithContext(ctx) })
		synced = append(synced, store)
	}
	for _, store := range synced {
		for len(store.ListKeys()) == 0 {
			goruntime.Gosched()
		}
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// noWatchList is a ListWatch that makes the reflector list.
type noWatchList struct{ *cache.ListWatch }

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// BenchmarkOpen measures the time from Register to the first answer of a real server. Another
// object has just been written, as always on a real server. list is an up-to-date list followed by
// a watch, the shape of a reflector.
func BenchmarkOpen(b *testing.B) {
	b.Run("keelson", func(b *testing.B) {
		n := newE2ENode(b, "open")
		n.set("a", "x")
		p := n.bind("p", func(p *v1.Pod) { p.Spec.Volumes = pod("", "a").Spec.Volumes })
		n.objects.Register(p)
		n.value("a")
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			n.objects.Unregister(p.UID)
			n.set("other", strconv.Itoa(i))
			b.StartTimer()
			n.objects.Register(p)
			require.Equal(b, "x", n.value("a"))
		}
	})
	b.Run("list", func(b *testing.B) {
		n := newE2ENode(b, "openlist")
		n.set("a", "x")
		selector := fields.OneTermEqualSelector("metadata.name", "a").String()
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			_, err := n.admin.Nodes().Patch(b.Context(), n.name, "application/merge-patch+json",
				fmt.Appendf(nil, `{"metadata":{"labels":{"x":"%d"}}}`, i), metav1.PatchOptions{})
			require.NoError(b, err)
			b.StartTimer()
			_, err = n.admin.ConfigMaps(n.name).List(b.Context(), metav1.ListOptions{FieldSelector: selector})
			require.NoError(b, err)
		}
	})
}
