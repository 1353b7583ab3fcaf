// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// The time of ended children stays, memory is that of all processes, and the working folder counts.
func TestStats(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`head -c 3000000 /dev/zero >file
		sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'
		sleep 1000 & sleep 1000`)
	_, id := e.run(pod)
	var got *stats.Container
	e.until("the loop has ended, and two processes wait", func() bool {
		var err error
		got, err = e.rt.ContainerStats(t.Context(), id)
		require.NoError(t, err)
		return got.CPU.UsageNanoseconds >= 20e6 && got.Processes == 3
	})
	assert.Equal(t, id, got.ID)
	assert.Equal(t, "c", got.Name)
	assert.Less(t, got.CPU.UsageNanoseconds, uint64(time.Minute))
	assert.Greater(t, got.Memory.WorkingSet, uint64(3*4096))
	assert.Less(t, got.Memory.WorkingSet, uint64(100<<20))
	assert.Positive(t, got.Memory.PageFaults)
	assert.WithinDuration(t, time.Now(), got.Memory.At, time.Minute)

	fresh := e.open(process.Options{}) // without results of earlier calls
	pods, err := fresh.ListStats(t.Context())
	require.NoError(t, err)
	require.Len(t, pods, 1)
	assert.Equal(t, pod.UID, pods[0].UID)
	assert.Equal(t, pod.Namespace+"/"+pod.Name, pods[0].Namespace+"/"+pods[0].Name)
	assert.EqualValues(t, 3, pods[0].Processes)
	require.Len(t, pods[0].Containers, 1)
	listed := pods[0].Containers[0]
	assert.GreaterOrEqual(t, listed.CPU.UsageNanoseconds, got.CPU.UsageNanoseconds)
	assert.GreaterOrEqual(t, listed.WritableLayer.UsedBytes, uint64(3000000))
	assert.GreaterOrEqual(t, listed.WritableLayer.InodesUsed, uint64(2))
	assert.DirExists(t, listed.WritableLayer.Mountpoint)

	require.NoError(t, e.rt.StopContainer(t.Context(), id, 0))
	_, err = e.rt.ContainerStats(t.Context(), id)
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	pods, err = e.rt.ListStats(t.Context())
	require.NoError(t, err)
	require.Empty(t, pods)
}

func BenchmarkListStats(b *testing.B) {
	for _, pods := range []int{10, 100} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			if os.Getenv("KEELSON_E2E") != "1" && pods > 10 {
				b.Skip("KEELSON_E2E is not 1")
			}
			e := newEnv(b)
			for range pods {
				e.run(e.pod("sleep 1000"))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				got, err := e.rt.ListStats(b.Context())
				if err != nil || len(got) != pods {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
