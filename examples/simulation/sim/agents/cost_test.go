// SPDX-License-Identifier: Apache-2.0

package agents_test

import (
	"flag"
	"iter"
	"os"
	goruntime "runtime"
	"runtime/pprof"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/simulation/internal/pace"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/agents"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/examples/simulation/sim/workload"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
)

var (
	costNodes = flag.Int("nodes", 10, "the nodes of TestCost")
	costPods  = flag.Int("pods", 20, "the pods of each node of TestCost")
	costHeap  = flag.String("heap", "", "a new `file` for the profile of the heap of TestCost after the hour")
)

// callsPerPod is the limit of calls to the runtime for a pod that runs to its end, without the
// listings of its node. Six of them start, stop and remove the pod, and the others read it.
const callsPerPod = 10

// usage returns the processor time of this process, and its resident memory at most, in MiB on Linux.
func usage(t *testing.T) (processor time.Duration, resident int64) {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), int64(u.Maxrss) >> 10
}

// TestCost runs an hour of virtual time, with the settings of the program simulate: pods of five minutes that arrive during the first 50 minutes,
// or pods that run on. All pods run. TestCost prints processor time, memory, and calls to the runtimes
// of the nodes.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		name string
		work time.Duration
	}{{"load", 5 * time.Minute}, {"idle", 0}} {
		t.Run(c.name, func(t *testing.T) { measure(t, c.work) })
	}
}

func measure(t *testing.T, work time.Duration) {
	t.Cleanup(pace.Set())
	root := t.TempDir()
	total := *costNodes * *costPods
	synctest.Test(t, func(t *testing.T) {
		every := 50 * time.Minute / time.Duration(total)
		if work == 0 {
			every = time.Millisecond
		}
		jobs := workload.Poisson{Seed: 1, Jobs: total, Every: every, Mean: max(work, time.Minute), Shapes: []*sim.Shape{shape(t, "10m", 0)}}
		o := sim.Options{Nodes: roomyNodes(), Workload: jobs, Profile: kube.Profile(), Seed: 1, Until: time.Hour}
		if work == 0 {
			o.Workload = endless{jobs}
		}
		real, stop := agents.New(agents.Options{Nodes: o.Nodes, Root: root})
		var backend *agents.Agents
		o.Backend = func(b sim.BackendInput) (sim.Backend, error) {
			made, err := real(b)
			backend, _ = made.(*agents.Agents)
			return made, err
		}
		s, err := sim.New(o)
		require.NoError(t, err)
		before, _ := usage(t)
		born := time.Now()
		var started time.Duration
		ready := 0
		for e, more := s.Step(); more; e, more = s.Step() {
			if e.Kind != sim.ReadyNow {
				continue
			}
			if ready++; ready == total {
				now, _ := usage(t)
				started = now - before
			}
		}
		require.NoError(t, s.Err())
		time.Sleep(time.Hour - time.Since(born)) // the run ends with its last event
		synctest.Wait()
		after, resident := usage(t)
		spent := after - before
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		if *costHeap != "" {
			file, err := os.Create(*costHeap)
			require.NoError(t, err)
			require.NoError(t, pprof.WriteHeapProfile(file))
			require.NoError(t, file.Close())
		}
		calls := map[fake.Op]int{}
		sum := 0
		for _, n := range backend.Cluster().Nodes() {
			for _, op := range []fake.Op{
				fake.OpRunSandbox, fake.OpStopSandbox, fake.OpRemoveSandbox, fake.OpCreateContainer, fake.OpStartContainer,
				fake.OpStopContainer, fake.OpRemoveContainer, fake.OpPodStatus, fake.OpList,
			} {
				calls[op] += n.World.Total(op)
				sum += n.World.Total(op)
			}
		}
		t.Logf("%d nodes × %d pods, one virtual hour: %.1f s of processor time (%.1f s until the last pod was ready), %d MiB of heap, %d MiB of stacks, %d MiB resident at most, %d goroutines, %.2f calls and %.2f patches per pod: %v",
			*costNodes, *costPods, spent.Seconds(), started.Seconds(), m.HeapAlloc>>20, m.StackInuse>>20, resident, goruntime.NumGoroutine(), float64(sum)/float64(total), float64(backend.Cluster().Server().Total(statusmanager.RequestPatch))/float64(total), calls)
		assert.Equal(t, total, ready, "the pods that were ready")
		assert.LessOrEqual(t, sum-calls[fake.OpList], callsPerPod*total)
		require.NoError(t, stop())
	})
}

// roomyNodes returns the nodes of TestCost. Each has room for more than its share of the pods.
func roomyNodes() []*v1.Node {
	all := nodes(*costNodes)
	for _, n := range all {
		room := int64(*costPods)*11/10 + 1
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU:    *resource.NewMilliQuantity(10*room, resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(100<<20*room, resource.BinarySI),
			v1.ResourcePods:   *resource.NewQuantity(room, resource.DecimalSI),
		}
	}
	return all
}

// endless is a workload whose pods run on.
type endless struct{ sim.Workload }

// Arrivals implements sim.Workload.
func (e endless) Arrivals() iter.Seq2[sim.Arrival, error] {
	return func(yield func(sim.Arrival, error) bool) {
		for a, err := range e.Workload.Arrivals() {
			a.Duration = 0
			if !yield(a, err) {
				return
			}
		}
	}
}
