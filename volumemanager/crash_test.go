// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// moment is the state left by a killed agent: the disk, the mounts, and the pods.
type moment struct {
	name   string
	root   string
	plugin *volumetest.Plugin
	lives  map[types.UID]volumetest.Life
}

// TestKilledAtEveryCallOfAPlugin plays a story and copies the state that a kill -9 would leave just
// before and after every effect of a plugin call. Then a new agent continues from each copy.
// Between these moments only records change, and they change atomically.
//
// Each copy is used twice: with all pods alive, no live volume is torn down; with all pods gone,
// nothing is left at the end.
func TestKilledAtEveryCallOfAPlugin(t *testing.T) {
	moments := tellStory(t)
	require.Greater(t, len(moments), 30)
	for _, m := range moments {
		for _, ending := range []volumetest.Life{volumetest.Alive, volumetest.Gone} {
			t.Run(fmt.Sprintf("%s/%d", m.name, ending), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { m.goOn(t, ending) })
			})
		}
	}
}

// tellStory plays the story and returns the moments.
func tellStory(t *testing.T) []moment {
	var mu sync.Mutex
	var moments []moment
	copies := memoryDir(t)
	lives := map[types.UID]volumetest.Life{}
	options := volumetest.Options{Shared: true, Staged: true, Refresh: true}
	var s *stage
	keep := func(c volumetest.Call, when string) {
		mu.Lock()
		defer mu.Unlock()
		m := moment{
			name: fmt.Sprintf("%d %s %s %s-%s", len(moments), when, c.Op, c.PodUID, c.Volume), root: filepath.Join(copies, fmt.Sprint(len(moments))),
			lives: map[types.UID]volumetest.Life{},
		}
		for uid, life := range lives {
			m.lives[uid] = life
		}
		for !m.take(s, options) {
		}
		moments = append(moments, m)
	}
	behave := options
	behave.Behave = func(c volumetest.Call) volumetest.Behaviour {
		keep(c, "before")
		if c.Op == volumetest.OpTearDown && c.N == 0 {
			return volumetest.Behaviour{Err: errors.New("busy"), Done: c.PodUID == "a"}
		}
		return volumetest.Behaviour{Delay: time.Millisecond}
	}
	edit := func(o *volumemanager.Options) {
		o.Claims = claims()
		o.Hooks.OperationEnded = func(e volumemanager.OperationEnd) {
			keep(volumetest.Call{Op: volumetest.Op(e.Kind.String()), PodUID: e.PodUID}, "after")
		}
	}
	play(t, behave, edit, func(stage *stage) {
		s = stage
		live := func(uid types.UID, life volumetest.Life) {
			mu.Lock()
			defer mu.Unlock()
			lives[uid] = life
			s.pods.Set(uid, life)
		}
		for _, uid := range []types.UID{"a", "b"} {
			live(uid, volumetest.Alive)
			require.NoError(s, s.mount(storyPod(uid)))
		}
		require.NoError(s, s.mount(storyPod("a")), "a refresh")
		for _, uid := range []types.UID{"a", "b"} {
			live(uid, volumetest.Gone)
			require.NoError(s, s.manager.WaitForUnmount(s.Context(), uid))
		}
	})
	return moments
}

// take copies the mounts and the disk. It reports whether both copies are of the same moment,
// because operations for other volumes continue meanwhile.
func (m *moment) take(s *stage, o volumetest.Options) bool {
	m.plugin = s.plugin.Clone(o)
	require.NoError(s, os.RemoveAll(m.root))
	err := os.CopyFS(m.root, os.DirFS(s.root))
	after := s.plugin.Clone(o)
	return err == nil && slices.Equal(m.plugin.Mounted(), after.Mounted()) && slices.Equal(m.plugin.Staged(), after.Staged())
}

func storyPod(uid types.UID) *v1.Pod {
	pod := podClaiming(uid, "c")
	pod.Spec.Volumes = append(pod.Spec.Volumes, podWith(uid, "inline").Spec.Volumes...)
	use(pod, "inline")
	return pod
}

// goOn starts a new agent on the copied state.
func (m moment) goOn(t *testing.T, ending volumetest.Life) {
	root := m.root + fmt.Sprint("-", ending)
	require.NoError(t, os.CopyFS(root, os.DirFS(m.root)))
	s := newStage(t, root, volumetest.Options{}, func(o *volumemanager.Options) { o.Claims = claims() })
	s.plugin = m.plugin.Clone(volumetest.Options{Shared: true, Staged: true, Refresh: true, Gone: s.pods.ShouldPodRuntimeBeRemoved})
	s.options.Plugins = []volumemanager.Plugin{s.plugin}
	for uid, life := range m.lives {
		s.pods.Set(uid, life)
	}
	before := s.plugin.Mounted()
	s.renew()
	s.start()
	defer func() { s.stop() }()
	for uid, life := range m.lives {
		switch {
		case ending == volumetest.Gone:
			require.NoError(t, s.remove(uid))
		case life == volumetest.Alive:
			require.NoError(t, s.mount(storyPod(uid)))
			for inner := range map[string]bool{"inline": true, "pv-c": true} {
				require.Contains(t, s.plugin.Mounted(), string(uid)+"/"+inner)
			}
		}
	}
	for _, name := range before {
		if uid := types.UID(name[:1]); ending != volumetest.Gone && m.lives[uid] == volumetest.Alive {
			require.NotContains(t, s.plugin.Journal(), "TearDown "+name)
		}
	}
	for uid := range m.lives {
		require.NoError(t, s.remove(uid))
	}
	synctest.Wait()
	require.Empty(t, s.plugin.Mounted())
	require.Empty(t, s.plugin.Staged())
	require.Empty(t, filesBelow(t, root))
	require.Empty(t, s.plugin.Violations())
}
