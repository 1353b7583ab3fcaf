// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// withoutPods configures a manager without Pods: the calls on the manager decide the lifecycle of
// pods.
func withoutPods(o *volumemanager.Options) {
	o.Pods = nil
	o.SetLimits(volumemanager.Limits{Resync: time.Second})
}

func keepNone(types.UID) bool { return false }

func TestWithoutPodsTheCallsSayWhatIsGone(t *testing.T) {
	play(t, volumetest.Options{Gone: func(types.UID) bool { return true }}, withoutPods, func(s *stage) {
		pod := podWith("a", "one")
		require.NoError(s, s.mount(pod))
		time.Sleep(time.Minute)
		require.NoError(s, s.manager.CleanupOrphans(s.Context(), keepNone))
		synctest.Wait()
		assert.Equal(s, []string{"a/one"}, s.plugin.Mounted(), "a pod that asked for its volumes keeps them")

		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "a"))
		assert.Empty(s, s.plugin.Mounted())
		require.NoError(s, s.mount(pod), "its UID returns")
		time.Sleep(time.Minute)
		assert.Equal(s, []string{"a/one"}, s.plugin.Mounted())
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "a"))
	})
}

func TestWithoutPodsWhatAnEarlierAgentMountedIsKeptUntilItIsAnOrphan(t *testing.T) {
	play(t, volumetest.Options{Gone: func(types.UID) bool { return true }}, withoutPods, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "one")))
		require.NoError(s, s.mount(podWith("b", "one")))
		s.restart()
		time.Sleep(time.Minute)
		assert.Equal(s, []string{"a/one", "b/one"}, s.plugin.Mounted(), "nobody has said that they are gone")

		require.NoError(s, s.mount(podWith("b", "one")))
		require.NoError(s, s.manager.CleanupOrphans(s.Context(), keepNone))
		time.Sleep(time.Minute)
		assert.Equal(s, []string{"b/one"}, s.plugin.Mounted(), "b needs its volume, whatever the listing said")
		require.NoError(s, s.manager.CleanupOrphans(s.Context(), keepNone))
		assert.NoDirExists(s, s.root+"/pods/a")
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "b"))
	})
}

// subpaths is a SubpathPreparer that makes every subPath mountable.
type subpaths struct{ volumemanager.Subpaths }

func (subpaths) CleanSubpaths(context.Context, volumemanager.Place) error { return nil }

func (subpaths) PrepareSubpath(_ context.Context, p volumemanager.Place, volume, subPath, container string, _ int) (string, error) {
	return volume + "/" + subPath + " of " + p.Inner + " for " + container, nil
}

func TestMountOf(t *testing.T) {
	for name, edit := range map[string]func(*volumemanager.Options){
		"subpaths":    func(o *volumemanager.Options) { o.Subpaths = subpaths{} },
		"no subpaths": nil,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, volumetest.Options{}, edit, func(s *stage) {
				pod := podWith("a", "one")
				c := &pod.Spec.Containers[0]
				_, _, _, err := s.manager.MountOf(s.Context(), pod, c, 0)
				require.EqualError(s, err, `volume "one": is not mounted`)
				require.NoError(s, s.mount(pod))
				_, _, _, err = s.manager.MountOf(s.Context(), pod, c, 0)
				require.ErrorContains(s, err, `volume "one": stat `, "what is gone from the disk is told before a container finds out")
				require.NoError(s, os.MkdirAll(s.root+"/pods/a/volumes/example.com~fake/one", 0o755))
				path, readOnly, relabel, err := s.manager.MountOf(s.Context(), pod, c, 0)
				require.NoError(s, err)
				assert.Equal(s, s.root+"/pods/a/volumes/example.com~fake/one", path)
				assert.False(s, readOnly)
				assert.False(s, relabel)

				c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "one", ReadOnly: true, SubPath: "part"})
				path, readOnly, _, err = s.manager.MountOf(s.Context(), pod, c, 1)
				if edit == nil {
					require.EqualError(s, err, `volume "one": subPath "part": this node has no subpaths`)
					return
				}
				require.NoError(s, err)
				assert.True(s, readOnly)
				assert.Equal(s, s.root+"/pods/a/volumes/example.com~fake/one/part of one for "+c.Name, path)
			})
		})
	}
}
