// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// renaming is a plugin whose volumes have other IDs later, as a PersistentVolume that was deleted and
// created again has.
type renaming struct {
	*volumetest.Plugin
	id string
}

func (r *renaming) VolumeID(volumemanager.Spec) (string, error) { return r.id, nil }

// A volume does not take the folder that another volume of the pod still has. Once the other volume
// is torn down, it does.
func TestFolderOfAnotherVolume(t *testing.T) {
	plugin := &renaming{id: "one"}
	edit := func(o *volumemanager.Options) {
		plugin.Plugin = o.Plugins[0].(*volumetest.Plugin)
		o.Plugins[0], o.Claims = plugin, claims()
	}
	behave := func(volumetest.Call) volumetest.Behaviour { return volumetest.Behaviour{Delay: time.Second} }
	play(t, volumetest.Options{Shared: true, Behave: behave}, edit, func(s *stage) {
		pod := podClaiming("a", "c")
		refused := func(why string) {
			var e *volumemanager.MountError
			require.ErrorAs(s, s.mount(pod), &e)
			require.ErrorContains(s, e, why)
			assert.NotErrorIs(s, e, volumemanager.ErrTerminal)
			assert.Equal(s, []string{"of-c"}, e.Unmounted)
		}
		first := background(func() error { return s.mount(pod) })
		synctest.Wait()
		plugin.id = "two"
		refused("another volume is about to leave the folder of the volume")
		require.NoError(s, first())
		refused("volume example.com/fake/one still has the folder of the volume")
		require.NoError(s, s.remove("a"))
		s.pods.Set("a", volumetest.Alive)
		require.NoError(s, s.mount(pod))
	})
}

// immutable is a plugin of volumes that containers can only read.
type immutable struct{ *volumetest.Plugin }

func (i immutable) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	mounted, err := i.Plugin.SetUp(ctx, m)
	mounted.ReadOnly = true
	return mounted, err
}

func TestMountOfAReadOnlyVolume(t *testing.T) {
	edit := func(o *volumemanager.Options) { o.Plugins[0] = immutable{o.Plugins[0].(*volumetest.Plugin)} }
	play(t, volumetest.Options{Folders: true}, edit, func(s *stage) {
		pod := podWith("a", "v")
		require.NoError(s, s.mount(pod))
		_, readOnly, _, err := s.manager.MountOf(s.Context(), pod, &pod.Spec.Containers[0], 0)
		require.NoError(s, err)
		assert.True(s, readOnly)
	})
}

// pathless is a plugin of volumes without a path on the host.
type pathless struct{ *volumetest.Plugin }

func (p pathless) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	_, err := p.Plugin.SetUp(ctx, m)
	return volumemanager.Mounted{}, err
}

func TestMountOfAVolumeWithoutAPath(t *testing.T) {
	edit := func(o *volumemanager.Options) { o.Plugins[0] = pathless{o.Plugins[0].(*volumetest.Plugin)} }
	play(t, volumetest.Options{}, edit, func(s *stage) {
		pod := podWith("a", "v")
		require.NoError(s, s.mount(pod))
		_, _, _, err := s.manager.MountOf(s.Context(), pod, &pod.Spec.Containers[0], 0)
		require.EqualError(s, err, `volume "v": has no path on the host, so that a volumeMount cannot use it`)
	})
}

// A pod waits anew for a refresh of a volume that it has.
func TestRequestedIsTheTimeOfTheLastWait(t *testing.T) {
	play(t, volumetest.Options{Refresh: true}, nil, func(s *stage) {
		var began []time.Time
		for range 2 {
			began = append(began, time.Now())
			require.NoError(s, s.mount(podWith("a", "v")))
			time.Sleep(time.Hour)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Len(s, s.ends, 2)
		for i, end := range s.ends {
			assert.Equal(s, began[i], end.Requested)
		}
	})
}
