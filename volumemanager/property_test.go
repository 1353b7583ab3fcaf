// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

var (
	seeds    = flag.Uint64("seeds", casetest.Rounds[uint64](600), "how many histories TestRandomHistories plays")
	onlySeed = flag.Uint64("seed", 0, "play this one history only")
)

// TestRandomHistories plays random histories of four pods with inline, private and shared volumes,
// a plugin with failures of every class, hangs and delays, a cluster that attaches late and is
// sometimes unreachable, and restarts of the agent. In every history:
//
//   - no volume of a pod that is not gone is torn down, no volume is set up or torn down twice at
//     the same time, and no device is unstaged while a pod has its volume (the fake checks these
//     rules);
//   - once faults stop, every volume requested by a live pod is mounted, and nothing is left of
//     gone pods, in the plugin and in the records.
func TestRandomHistories(t *testing.T) {
	const batch = 100
	first, last := uint64(1), *seeds
	if *onlySeed != 0 {
		first, last = *onlySeed, *onlySeed
	}
	for from := first; from <= last; from += batch {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			t.Parallel()
			root := memoryDir(t)
			synctest.Test(t, func(t *testing.T) {
				for seed := from; seed < from+batch && seed <= last; seed++ {
					newHistory(t, filepath.Join(root, fmt.Sprint(seed)), seed).play()
					if t.Failed() {
						t.Fatalf("again with: go test -run TestRandomHistories -seed %d", seed)
					}
				}
			})
		})
	}
}

// history is the state of a run with a seed.
type history struct {
	*stage
	seed uint64
	rng  *rand.Rand
	pods map[types.UID]*v1.Pod // requested and live pods
	wait sync.WaitGroup
	// cluster attaches volumes, if the plugin's volumes need attaching.
	cluster cluster

	mu struct {
		sync.Mutex
		rng     *rand.Rand // for the faults of plugin and cluster
		peace   bool       // no more faults
		current *volumemanager.Manager
	}
}

func newHistory(t *testing.T, root string, seed uint64) *history {
	h := &history{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), pods: map[types.UID]*v1.Pod{}}
	h.mu.rng = rand.New(rand.NewPCG(seed, 2))
	plugin := volumetest.Options{
		Refresh: h.odds(2), Shared: h.odds(2), Staged: h.odds(2), Behave: h.behave,
	}
	plugin.Staged = plugin.Staged && plugin.Shared
	plugin.Attachable = plugin.Shared && h.odds(2)
	h.stage = newStage(t, root, plugin, func(o *volumemanager.Options) {
		o.Claims = claims()
		o.SetLimits(volumemanager.Limits{Parallel: 1 + h.rng.IntN(4), Operation: 20 * time.Second})
		if plugin.Attachable {
			o.Node = &h.cluster
		}
	})
	return h
}

// attach plays the attach controller at intervals until ctx ends: it reads the volumes in use,
// attaches them and detaches the others, or is unreachable.
func (h *history) attach(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		down := !h.mu.peace && h.mu.rng.IntN(4) == 0
		manager := h.mu.current
		h.mu.Unlock()
		if down {
			h.cluster.set(nil, errors.New("connection refused"))
			continue
		}
		attached := map[v1.UniqueVolumeName]string{}
		for _, name := range manager.GetVolumesInUse() {
			attached[name] = "/dev/" + string(name)
		}
		h.cluster.set(attached, nil)
		manager.MarkVolumesAsReportedInUse(manager.GetVolumesInUse())
	}
}

// restart restarts the manager and connects the new manager to the cluster.
func (h *history) restart() {
	h.stage.restart()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.current = h.manager
}

// odds returns true once in n times on average.
func (h *history) odds(n int) bool { return h.rng.IntN(n) == 0 }

// behave returns a random Behaviour. The class of an error is always truthful.
func (h *history) behave(c volumetest.Call) volumetest.Behaviour {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := volumetest.Behaviour{Delay: time.Duration(h.mu.rng.IntN(3)) * time.Duration(h.mu.rng.IntN(2000)) * time.Millisecond}
	if h.mu.peace {
		return volumetest.Behaviour{}
	}
	plain := errors.New("no")
	switch h.mu.rng.IntN(14) {
	case 0:
		b.Err = volumemanager.Final(plain)
	case 1:
		b.Err = volumemanager.Terminal(plain)
	case 2:
		b.Err = volumemanager.Transient(plain)
	case 3, 4:
		b.Err = plain
	case 5:
		b.Err, b.Done = volumemanager.Uncertain(plain), true
	case 6:
		b.Hang = volumetest.HangUntilCancelled
	}
	return b
}

func (h *history) play() {
	h.start()
	h.mu.current = h.manager
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go h.attach(ctx)
	for range 25 {
		h.step()
		if !h.odds(3) {
			synctest.Wait()
			h.check()
		}
	}
	h.finish()
}

func (h *history) step() {
	uid := types.UID(fmt.Sprint("pod", h.rng.IntN(4)))
	switch h.rng.IntN(10) {
	case 0, 1, 2, 3:
		h.ask(uid)
	case 4, 5:
		h.end(uid)
	case 6:
		h.manager.Refresh(func(*v1.Pod, v1.Volume) bool { return true })
	case 7:
		h.restart()
	default:
		time.Sleep(time.Duration(h.rng.IntN(8000)) * time.Millisecond)
	}
}

// ask syncs the pod; a gone pod is alive again.
func (h *history) ask(uid types.UID) {
	synctest.Wait()
	h.stage.pods.Set(uid, volumetest.Alive)
	pod := podClaiming(uid, "c")
	pod.Spec.Volumes = append(pod.Spec.Volumes, podWith(uid, "inline").Spec.Volumes...)
	use(pod, "inline")
	if h.odds(2) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, claimVolume("again", "c"), claimVolume("other", "d"))
		use(pod, "again")
		use(pod, "other")
	}
	h.pods[uid] = pod
	manager, patience := h.manager, time.Duration(h.rng.IntN(5000))*time.Millisecond
	h.wait.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = manager.WaitForAttachAndMount(ctx, pod)
	})
}

// end makes the pod gone, in some cases after a time of terminating.
func (h *history) end(uid types.UID) {
	synctest.Wait()
	if h.odds(2) {
		h.stage.pods.Set(uid, volumetest.Terminating)
		h.manager.PodChanged(uid)
		time.Sleep(time.Duration(h.rng.IntN(3000)) * time.Millisecond)
	}
	delete(h.pods, uid)
	h.stage.pods.Set(uid, volumetest.Gone)
	if h.odds(4) {
		return // the manager must find out in the resync
	}
	manager, patience := h.manager, time.Duration(h.rng.IntN(5000))*time.Millisecond
	h.wait.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = manager.WaitForUnmount(ctx, uid)
	})
}

// check checks the invariants while no goroutine runs. A record exists if and only if the volume or
// device is or may be mounted; during an operation, the record may exist in any case.
func (h *history) check() {
	require.Empty(h, h.plugin.Violations(), "seed %d", h.seed)
	snapshot := h.manager.Snapshot()
	busy := map[v1.UniqueVolumeName]bool{}
	for _, o := range snapshot.Operations {
		busy[o.Volume] = true
	}
	agrees := func(state volumemanager.State, record string, busy bool) {
		if state != volumemanager.StateNotMounted {
			require.FileExists(h, record, "seed %d", h.seed)
		} else if !busy {
			require.NoFileExists(h, record, "seed %d", h.seed)
		}
	}
	for _, v := range snapshot.Volumes {
		agrees(v.Device, volumemanager.DeviceRecordPath(h.root, v.Name), busy[v.Name])
		for _, p := range v.Pods {
			agrees(p.State, h.recordOf(p.UID, p.Inner), busy[v.Name])
		}
	}
	for _, name := range h.plugin.Mounted() {
		uid, inner, _ := strings.Cut(name, "/")
		require.FileExists(h, h.recordOf(types.UID(uid), inner), "seed %d: what is mounted has a record", h.seed)
	}
	for _, pv := range h.plugin.Staged() {
		name := v1.UniqueVolumeName(h.plugin.Name() + "/" + pv)
		require.FileExists(h, volumemanager.DeviceRecordPath(h.root, name), "seed %d: what is staged has a record", h.seed)
	}
}

// finish stops the faults and checks the final state.
func (h *history) finish() {
	h.mu.Lock()
	h.mu.peace = true
	h.mu.Unlock()
	if h.odds(2) {
		h.restart()
	}
	h.wait.Wait()
	h.manager.Resync()
	time.Sleep(20 * time.Minute)
	var want []string
	for uid, pod := range h.pods {
		require.NoError(h, h.mount(pod), "seed %d: pod %s", h.seed, uid)
		mounted := h.manager.GetMountedVolumesForPod(uid)
		for _, vol := range pod.Spec.Volumes {
			require.Contains(h, mounted, vol.Name, "seed %d: pod %s", h.seed, uid)
			_, there := h.plugin.Content(uid, mounted[vol.Name].Inner)
			require.True(h, there, "seed %d: pod %s, volume %s", h.seed, uid, vol.Name)
		}
		for inner := range h.inners(uid) {
			want = append(want, string(uid)+"/"+inner)
		}
	}
	h.manager.Resync()
	time.Sleep(20 * time.Minute)
	slices.Sort(want)
	require.Equal(h, want, h.plugin.Mounted(), "seed %d: live pods have their volumes, nothing else is there", h.seed)
	h.check()
	for uid := range h.pods {
		require.NoError(h, h.remove(uid), "seed %d", h.seed)
	}
	time.Sleep(time.Minute)
	require.Empty(h, h.plugin.Mounted(), "seed %d", h.seed)
	require.Empty(h, h.plugin.Staged(), "seed %d", h.seed)
	require.Empty(h, h.manager.Snapshot().Volumes, "seed %d", h.seed)
	require.Empty(h, filesBelow(h.T, h.root), "seed %d: no record is left", h.seed)
	left, err := h.manager.Leftovers(context.Background(), nobody)
	require.NoError(h, err)
	for _, l := range left {
		require.Equal(h, volumemanager.LeftoverFolder, l.Kind, "seed %d: %+v", h.seed, l)
	}
	h.stop()
	require.Empty(h, h.plugin.Violations(), "seed %d", h.seed)
}

// inners returns the folders of all volumes that the pod has ever requested: a live pod keeps its
// volumes.
func (h *history) inners(uid types.UID) map[string]bool {
	inners := map[string]bool{}
	for _, v := range h.manager.Snapshot().Volumes {
		for _, p := range v.Pods {
			if p.UID == uid && p.State == volumemanager.StateMounted {
				inners[p.Inner] = true
			}
		}
	}
	for _, name := range h.plugin.Mounted() {
		if owner, inner, _ := strings.Cut(name, "/"); owner == string(uid) {
			inners[inner] = true
		}
	}
	return inners
}

func filesBelow(t *testing.T, root string) []string {
	var files []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, name)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	require.NoError(t, err)
	return files
}
