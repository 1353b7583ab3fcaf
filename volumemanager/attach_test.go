// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

const attachedName = v1.UniqueVolumeName("example.com/fake/pv-c")

// cluster is a fake API server with an attach controller.
type cluster struct {
	mu       sync.Mutex
	attached map[v1.UniqueVolumeName]string
	err      error
	asked    int
	changes  int
}

func (c *cluster) AttachedVolumes(context.Context) (map[v1.UniqueVolumeName]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.attached, c.err
}

func (c *cluster) set(attached map[v1.UniqueVolumeName]string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attached, c.err = attached, err
}

// playAttached is play with volumes that need attaching.
func playAttached(t *testing.T, plugin volumetest.Options, f func(*stage, *cluster)) {
	c := &cluster{}
	plugin.Shared, plugin.Staged, plugin.Attachable = true, true, true
	play(t, plugin, func(o *volumemanager.Options) {
		o.Claims, o.Node = claims(), c
		o.Hooks.InUseChanged = func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changes++
		}
	}, func(s *stage) { f(s, c) })
}

// Issues 28141, 89313: the first attach waits up to 10 s for the next update of the node's status.
func TestUpstream28141AttachProtocolIsDrivenByEvents(t *testing.T) {
	playAttached(t, volumetest.Options{}, func(s *stage, c *cluster) {
		began := time.Now()
		wait := background(func() error { return s.mount(podClaiming("a", "c")) })
		synctest.Wait()
		assert.Equal(s, 1, c.changes, "the node's status is to be sent now")
		assert.Equal(s, []v1.UniqueVolumeName{attachedName}, s.manager.GetVolumesInUse())
		assert.Zero(s, c.asked, "not before the volume is reported as in use")

		s.manager.MarkVolumesAsReportedInUse(s.manager.GetVolumesInUse())
		synctest.Wait()
		assert.Equal(s, 1, c.asked)
		assert.False(s, s.manager.VolumeIsAttached(attachedName))
		c.set(map[v1.UniqueVolumeName]string{attachedName: "/dev/x"}, nil)
		s.manager.NodeChanged()
		require.NoError(s, wait())
		assert.Zero(s, time.Since(began))
		assert.True(s, s.manager.VolumeIsAttached(attachedName))
		assert.Equal(s, []string{"WaitForAttach pv-c", "MountDevice pv-c", "SetUp a/pv-c"}, s.plugin.Journal())

		require.NoError(s, s.remove("a"))
		synctest.Wait()
		assert.Equal(s, 2, c.changes)
		assert.Empty(s, s.manager.GetVolumesInUse(), "it may be detached when it is not staged any more")
		assert.Empty(s, s.plugin.Staged())
	})
}

func TestVolumeStaysInUseUntilItIsUnstaged(t *testing.T) {
	behave := failing(volumetest.OpUnmountDevice, 3, errors.New("busy"))
	playAttached(t, volumetest.Options{Behave: behave}, func(s *stage, c *cluster) {
		c.set(map[v1.UniqueVolumeName]string{attachedName: ""}, nil)
		wait := background(func() error { return s.mount(podClaiming("a", "c")) })
		synctest.Wait()
		s.manager.MarkVolumesAsReportedInUse([]v1.UniqueVolumeName{attachedName, "unknown"})
		require.NoError(s, wait())
		require.NoError(s, s.remove("a"))
		synctest.Wait()
		assert.Equal(s, []v1.UniqueVolumeName{attachedName}, s.manager.GetVolumesInUse())
		time.Sleep(time.Minute)
		assert.Empty(s, s.manager.GetVolumesInUse())
	})
}

func TestReportedInUseIsTheWholeList(t *testing.T) {
	playAttached(t, volumetest.Options{}, func(s *stage, c *cluster) {
		wait := background(func() error { return s.mount(podClaiming("a", "c")) })
		synctest.Wait()
		s.manager.MarkVolumesAsReportedInUse([]v1.UniqueVolumeName{attachedName})
		s.manager.MarkVolumesAsReportedInUse(nil)
		synctest.Wait()
		c.set(map[v1.UniqueVolumeName]string{attachedName: ""}, nil)
		s.manager.NodeChanged()
		err := wait()
		require.ErrorContains(s, err, "not yet reported as in use")
		var me *volumemanager.MountError
		require.ErrorAs(s, err, &me)
		assert.Equal(s, []string{"of-c"}, me.Unattached)
	})
}

// After a restart the list of volumes in use contains the volumes that are still mounted, so that
// the controller does not detach them. The list may be published only after Reconstruct.
func TestRestartKeepsVolumesInUse(t *testing.T) {
	playAttached(t, volumetest.Options{}, func(s *stage, c *cluster) {
		c.set(map[v1.UniqueVolumeName]string{attachedName: ""}, nil)
		wait := background(func() error { return s.mount(podClaiming("a", "c")) })
		synctest.Wait()
		s.manager.MarkVolumesAsReportedInUse([]v1.UniqueVolumeName{attachedName})
		require.NoError(s, wait())
		s.stop()
		s.renew()
		assert.False(s, s.manager.ReconcilerStatesHasBeenSynced())
		s.start()
		assert.True(s, s.manager.ReconcilerStatesHasBeenSynced())
		assert.Equal(s, []v1.UniqueVolumeName{attachedName}, s.manager.GetVolumesInUse())
		c.set(nil, errors.New("connection refused"))
		time.Sleep(time.Hour)
		assert.Len(s, s.plugin.Mounted(), 1)
		require.NoError(s, s.remove("a"), "to unmount, nobody has to be asked")
		synctest.Wait()
		assert.Empty(s, s.plugin.Staged())
	})
}

func TestNodeThatIsFullSaysSo(t *testing.T) {
	full := false
	playAttached(t, volumetest.Options{Exhausted: func() bool { return full }}, func(s *stage, c *cluster) {
		var limit *volumemanager.AttachLimitError
		var me *volumemanager.MountError
		err := s.mount(podClaiming("a", "c"))
		require.NotErrorAs(s, err, &limit)
		full = true
		err = s.mount(podClaiming("a", "c"))
		require.ErrorAs(s, err, &limit)
		require.ErrorAs(s, err, &me)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		assert.ErrorContains(s, err, "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[of-c], unattached volumes=[of-c]")
	})
}

func TestSupplementalGroups(t *testing.T) {
	gids := map[string]string{"c": "12", "d": "x", "e": "7", "f": "100"}
	resolve := volumemanager.ClaimsFunc(func(ctx context.Context, pod *v1.Pod, vol v1.Volume) (volumemanager.Spec, error) {
		spec, err := claims()(ctx, pod, vol)
		spec.GID = gids[vol.PersistentVolumeClaim.ClaimName]
		return spec, err
	})
	play(t, volumetest.Options{}, func(o *volumemanager.Options) { o.Claims = resolve }, func(s *stage) {
		pod := podClaiming("a", "c", "d", "e", "f")
		assert.Empty(s, s.manager.GetExtraSupplementalGroupsForPod(pod))
		require.NoError(s, s.mount(pod))
		assert.Equal(s, []int64{7, 12, 100}, s.manager.GetExtraSupplementalGroupsForPod(pod))
		pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroups: []int64{100, 7}}
		assert.Equal(s, []int64{12}, s.manager.GetExtraSupplementalGroupsForPod(pod))
	})
	behave := volumetest.Options{Behave: failing(volumetest.OpSetUp, always, errors.New("no"))}
	play(t, behave, func(o *volumemanager.Options) { o.Claims = resolve }, func(s *stage) {
		pod := podClaiming("a", "c")
		require.Error(s, s.mount(pod))
		assert.True(s, s.manager.HasPossiblyMountedVolumesForPod("a"))
		assert.Empty(s, s.manager.GetExtraSupplementalGroupsForPod(pod), "the volume is uncertain")
	})
}

// TestQuestionsAboutSeveralVolumes asks about more than one volume, and about unknown ones.
func TestQuestionsAboutSeveralVolumes(t *testing.T) {
	names := []v1.UniqueVolumeName{"example.com/fake/pv-a", "example.com/fake/pv-b", "example.com/fake/pv-c"}
	playAttached(t, volumetest.Options{}, func(s *stage, c *cluster) {
		wait := background(func() error { return s.mount(podClaiming("p", "c", "a", "b")) })
		synctest.Wait()
		assert.Equal(s, names, s.manager.GetVolumesInUse())
		s.manager.MarkVolumesAsReportedInUse(names)
		synctest.Wait()
		for _, name := range names {
			assert.False(s, s.manager.VolumeIsAttached(name))
		}
		c.set(map[v1.UniqueVolumeName]string{names[0]: "", names[1]: "", names[2]: ""}, nil)
		began := time.Now()
		s.manager.NodeChanged()
		require.NoError(s, wait())
		assert.Zero(s, time.Since(began), "all are checked at once")
		for _, name := range names {
			assert.True(s, s.manager.VolumeIsAttached(name))
		}
		assert.False(s, s.manager.VolumeIsAttached("example.com/fake/unknown"))
	})
	play(t, volumetest.Options{}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		assert.True(s, s.manager.VolumeIsAttached("example.com/fake/a-v"), "a volume without attacher")
	})
}

// NodeChanged is about attaching: a volume that cannot be staged keeps its back-off.
func TestNodeChangedRetriesNothingElse(t *testing.T) {
	behave := failing(volumetest.OpMountDevice, 3, errors.New("no"))
	playAttached(t, volumetest.Options{Behave: behave}, func(s *stage, c *cluster) {
		c.set(map[v1.UniqueVolumeName]string{attachedName: ""}, nil)
		wait := background(func() error { return s.mount(podClaiming("a", "c")) })
		synctest.Wait()
		s.manager.MarkVolumesAsReportedInUse([]v1.UniqueVolumeName{attachedName})
		synctest.Wait()
		calls := s.plugin.Journal()
		require.Len(s, calls, 2, "WaitForAttach and a MountDevice that failed")
		s.manager.NodeChanged()
		synctest.Wait()
		assert.Equal(s, calls, s.plugin.Journal())
		require.NoError(s, wait())
	})
}
