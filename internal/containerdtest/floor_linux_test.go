// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// BenchmarkFloorStart is the lower bound for any node agent: the time from nothing to all pods
// running, with only the necessary calls (sandbox, create, start) and the given number of pods at a
// time. Pods use the host's network and have one busybox container. The removal is not measured.
func BenchmarkFloorStart(b *testing.B) {
	instance := containerd.Get(b)
	for _, size := range []struct{ pods, atOnce int }{{1, 1}, {50, 1}, {50, 2}, {50, 4}, {50, 8}} {
		b.Run(fmt.Sprintf("pods=%d/atOnce=%d", size.pods, size.atOnce), func(b *testing.B) {
			logs := b.TempDir()
			for b.Loop() {
				pods := make([]*pod, size.pods)
				inParallel(b, size.pods, size.atOnce, func(n int) (err error) {
					config := sandboxConfig(fmt.Sprint("floor-", n), logs, runtimeapi.NamespaceMode_NODE)
					pods[n], err = startPod(b.Context(), instance, config, command("sleep", "1000"))
					return err
				})
				b.StopTimer()
				inParallel(b, size.pods, 4, func(n int) error { return pods[n].remove(b.Context()) })
				b.StartTimer()
			}
		})
	}
}

// BenchmarkFloorRestart is the floor of a restart: create and start, in the
// sandbox of a container that has ended.
func BenchmarkFloorRestart(b *testing.B) {
	instance := containerd.Get(b)
	p, err := startPod(b.Context(), instance, sandboxConfig("floor", b.TempDir(), runtimeapi.NamespaceMode_NODE), command("sleep", "1000"))
	require.NoError(b, err)
	for attempt := uint32(1); b.Loop(); attempt++ {
		b.StopTimer()
		_, err := instance.Runtime.StopContainer(b.Context(), &runtimeapi.StopContainerRequest{ContainerId: p.container})
		require.NoError(b, err)
		b.StartTimer()
		next := command("sleep", "1000")
		next.Metadata = &runtimeapi.ContainerMetadata{Name: "main", Attempt: attempt}
		require.NoError(b, p.startContainer(b.Context(), next))
	}
	require.NoError(b, p.remove(b.Context()))
}

// inParallel calls f for each number below n, atOnce of them at a time, and ends
// b after the first error.
func inParallel(b *testing.B, n, atOnce int, f func(n int) error) {
	b.Helper()
	numbers, errs := make(chan int), make(chan error, n)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for n := range numbers {
				errs <- f(n)
			}
		})
	}
	for n := range n {
		numbers <- n
	}
	close(numbers)
	workers.Wait()
	close(errs)
	for err := range errs {
		require.NoError(b, err)
	}
}
