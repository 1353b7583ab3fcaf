// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"fmt"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// BenchmarkContainerLife is create, start, exit and removal of one container.
func BenchmarkContainerLife(b *testing.B) {
	n := newNode(b, fake.WorldOptions{JournalLimit: 1000})
	sb := n.sandbox("u", 0)
	n.Script(fake.Target{}, fake.Exit(time.Hour, 0)) // with a timer, as most have
	spec := runtime.ContainerSpec{Name: "web", Image: "image"}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		id, err := n.CreateContainer(ctx, sb, spec)
		if err != nil {
			b.Fatal(err)
		}
		if err := n.StartContainer(ctx, id); err != nil {
			b.Fatal(err)
		}
		if err := n.Kill("u", "web", 1); err != nil {
			b.Fatal(err)
		}
		if err := n.RemoveContainer(ctx, id); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	for _, pods := range []int{10, 100, 500, 5000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			n := newNode(b, fake.WorldOptions{JournalLimit: -1})
			fill(n, pods, 2)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := n.List(b.Context(), runtime.ListOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMemory reports the heap memory of running containers, each with its timer and a tenth of
// its pod and sandbox.
func BenchmarkMemory(b *testing.B) {
	var bytes float64
	for b.Loop() {
		bytes = memory(b)
	}
	b.ReportMetric(bytes, "B/container")
}

func memory(tb testing.TB) float64 {
	tb.Helper()
	const pods, containers = 1000, 10
	n := newNode(tb, fake.WorldOptions{JournalLimit: -1})
	n.Script(fake.Target{}, fake.Exit(time.Hour, 0))
	goroutines := goruntime.NumGoroutine()
	before := heap()
	fill(n, pods, containers)
	bytes := (heap() - before) / (pods * containers)
	require.Less(tb, goruntime.NumGoroutine(), goroutines+100, "no goroutine per container")
	n.Close()
	return bytes
}

func fill(n *node, pods, containers int) {
	n.tb.Helper()
	for p := range pods {
		sb := n.sandbox(types.UID(fmt.Sprintf("uid-%d-%d", containers, p)), 0)
		for c := range containers {
			n.run(sb, [...]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}[c], 0)
		}
	}
}

func heap() float64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// A container must stay cheap enough for thousands of nodes in one process.
func TestContainerCostsLessThanOneKilobyte(t *testing.T) {
	require.Less(t, memory(t), 1024.0)
}
