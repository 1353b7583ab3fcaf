// SPDX-License-Identifier: Apache-2.0

package pressure_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// pod returns a pod with the container c.
func pod(name string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func priority(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }

func requests(name v1.ResourceName, amount string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(amount) }
}

func limits(name v1.ResourceName, amount string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits[name] = resource.MustParse(amount) }
}

func static(p *v1.Pod) { p.Annotations = map[string]string{podfacts.AnnotationSource: "file"} }

func using(mebibytes int64, p *v1.Pod) pressure.Usage {
	return pressure.Usage{Pod: p, Known: true, Memory: mebibytes * mib, Containers: []pressure.ContainerUsage{{Name: "c", Memory: mebibytes * mib}}}
}

// storing has root, logs, and a local and a remote volume, in MiB and as many inodes.
func storing(root, logs, volume int64, p *v1.Pod) pressure.Usage {
	disk := func(n int64) pressure.Disk { return pressure.Disk{Bytes: n * mib, Inodes: n} }
	return pressure.Usage{
		Pod: p, Known: true, Containers: []pressure.ContainerUsage{{Name: "c", Root: disk(root), Logs: disk(logs)}},
		Volumes: []pressure.VolumeUsage{{Name: "v", Used: disk(volume), IsLocal: true}, {Name: "far", Used: disk(1000)}},
	}
}

func names(all []pressure.Usage) (names []string) {
	for _, u := range all {
		names = append(names, u.Pod.Name)
	}
	return names
}

func TestRank(t *testing.T) {
	const memory, storage = v1.ResourceMemory, v1.ResourceEphemeralStorage
	apart, both := pressure.Layout{ImagesApart: true}, pressure.Layout{ImagesApart: true, ContainersApart: true}
	young := func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(start.Add(time.Hour)) }
	old := func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(start) }
	inodes := func(n int64, p *v1.Pod) pressure.Usage {
		u := storing(0, 0, 0, p)
		u.Volumes[0].Used.Inodes = n
		return u
	}
	processes := func(n int64, p *v1.Pod) pressure.Usage { return pressure.Usage{Pod: p, Known: true, Processes: n} }
	for _, tc := range []struct {
		name   string
		signal pressure.Signal
		layout pressure.Layout
		want   []string
		in     []pressure.Usage
	}{
		{"memory: over its request first", pressure.MemoryAvailable, pressure.Layout{}, []string{"over", "within"}, []pressure.Usage{
			using(900, pod("within", requests(memory, "1Gi"))), using(2, pod("over", requests(memory, "1Mi"), priority(5))),
		}},
		{"memory: then the lower priority", pressure.MemoryAvailable, pressure.Layout{}, []string{"low", "high"}, []pressure.Usage{
			using(900, pod("high", priority(2))), using(1, pod("low", priority(1))),
		}},
		{"memory: then the larger excess", pressure.MemoryAvailable, pressure.Layout{}, []string{"b", "a"}, []pressure.Usage{
			using(900, pod("a", requests(memory, "800Mi"))), using(200, pod("b")),
		}},
		{"a pod without a measurement is the last of its priority", pressure.MemoryAvailable, pressure.Layout{}, []string{"over", "low", "unknown", "high"}, []pressure.Usage{
			{Pod: pod("unknown")}, using(1, pod("low", requests(memory, "1Gi"))), using(9, pod("over")), using(1, pod("high", requests(memory, "1Gi"), priority(9))),
		}},
		{"ties: the youngest first, then by UID", pressure.MemoryAvailable, pressure.Layout{}, []string{"new", "a", "b", "old"}, []pressure.Usage{
			using(1, pod("old", old)), using(1, pod("b", old, func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(start.Add(time.Minute)) })),
			using(1, pod("a", func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(start.Add(time.Minute)) })), using(1, pod("new", young)),
		}},
		{"one disk: everything counts", pressure.NodeFSAvailable, pressure.Layout{}, []string{"root", "volume"}, []pressure.Usage{
			storing(0, 0, 9, pod("volume")), storing(10, 0, 0, pod("root")),
		}},
		{"images apart: logs and volumes are on nodefs", pressure.NodeFSAvailable, apart, []string{"logs", "volume", "root"}, []pressure.Usage{
			storing(100, 0, 0, pod("root")), storing(0, 0, 9, pod("volume")), storing(0, 10, 0, pod("logs")),
		}},
		{"images apart: root file systems are on imagefs", pressure.ImageFSAvailable, apart, []string{"root", "volume"}, []pressure.Usage{
			storing(0, 100, 100, pod("volume")), storing(1, 0, 0, pod("root")),
		}},
		{"containers apart: only the priority counts on imagefs", pressure.ImageFSAvailable, both, []string{"low", "high"}, []pressure.Usage{
			storing(100, 100, 100, pod("high", priority(1))), storing(1, 0, 0, pod("low")),
		}},
		{"containers apart: everything is on nodefs", pressure.ContainerFSAvailable, both, []string{"more", "less"}, []pressure.Usage{
			storing(100, 0, 0, pod("less")), storing(0, 0, 101, pod("more")),
		}},
		{"disk: over its request first", pressure.NodeFSAvailable, pressure.Layout{}, []string{"over", "within"}, []pressure.Usage{
			storing(100, 0, 0, pod("within", requests(storage, "1Gi"))), storing(1, 1, 0, pod("over", requests(storage, "1Mi"), priority(1))),
		}},
		{"inodes: a request in bytes does not count", pressure.NodeFSInodesFree, pressure.Layout{}, []string{"many", "few"}, []pressure.Usage{
			inodes(10, pod("few")), inodes(100, pod("many", requests(storage, "1Gi"))),
		}},
		{"process IDs: lower priority, then more", pressure.PIDAvailable, pressure.Layout{}, []string{"low", "many", "few"}, []pressure.Usage{
			processes(10, pod("few", priority(1))), processes(100, pod("many", priority(1))), processes(1, pod("low")),
		}},
	} {
		assert.Equal(t, tc.want, names(pressure.Rank(tc.signal, tc.layout, tc.in)), tc.name)
	}
}

// Whatever the order of the input is, the order of the result is the same, and no pod stands before a pod that the
// rules put before it.
func TestRankIsTotal(t *testing.T) {
	for seed := range casetest.Rounds[uint64](200) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var all []pressure.Usage
		for i := range 12 {
			p := pod(strconv.Itoa(i), priority(rnd.Int32N(3)), requests(v1.ResourceMemory, strconv.Itoa(rnd.IntN(4))+"Mi"))
			u := using(rnd.Int64N(5), p)
			if rnd.IntN(5) == 0 {
				u = pressure.Usage{Pod: p}
			}
			all = append(all, u)
		}
		ranked := pressure.Rank(pressure.MemoryAvailable, pressure.Layout{}, all)
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		require.Equal(t, ranked, pressure.Rank(pressure.MemoryAvailable, pressure.Layout{}, all))
		excess := func(u pressure.Usage) int64 {
			return u.Memory - u.Pod.Spec.Containers[0].Resources.Requests.Memory().Value()
		}
		over := func(u pressure.Usage) bool { return u.Known && excess(u) > 0 }
		for i, a := range ranked {
			for _, b := range ranked[i+1:] {
				switch {
				case over(a) != over(b):
					require.True(t, over(a), seed)
				case *a.Pod.Spec.Priority != *b.Pod.Spec.Priority:
					require.Less(t, *a.Pod.Spec.Priority, *b.Pod.Spec.Priority, seed)
				case a.Known && b.Known:
					require.GreaterOrEqual(t, excess(a), excess(b), seed)
				default:
					require.False(t, b.Known && !a.Known, seed)
				}
			}
		}
	}
}

func TestReclaims(t *testing.T) {
	const containers, images = pressure.ReclaimContainers, pressure.ReclaimImages
	one, apart, both := pressure.Layout{}, pressure.Layout{ImagesApart: true}, pressure.Layout{ImagesApart: true, ContainersApart: true}
	for _, tc := range []struct {
		signal pressure.Signal
		layout pressure.Layout
		want   []pressure.Reclaim
	}{
		{pressure.MemoryAvailable, one, nil},
		{pressure.PIDAvailable, apart, nil},
		{pressure.NodeFSAvailable, one, []pressure.Reclaim{containers, images}},
		{pressure.ImageFSInodesFree, one, []pressure.Reclaim{containers, images}},
		{pressure.NodeFSInodesFree, apart, []pressure.Reclaim{containers}},
		{pressure.ImageFSAvailable, apart, []pressure.Reclaim{containers, images}},
		{pressure.ContainerFSAvailable, apart, []pressure.Reclaim{containers, images}},
		{pressure.NodeFSAvailable, both, []pressure.Reclaim{containers}},
		{pressure.ImageFSAvailable, both, []pressure.Reclaim{images}},
		{pressure.ContainerFSInodesFree, both, []pressure.Reclaim{containers}},
	} {
		assert.Equal(t, tc.want, tc.layout.Reclaims(tc.signal), "%s %v", tc.signal, tc.layout)
	}
	assert.Equal(t, "containers images", containers.String()+" "+images.String())
}
