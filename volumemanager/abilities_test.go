// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// recorder is a plugin that keeps the arguments of its methods.
type recorder struct {
	*volumetest.Plugin
	setUp, mapped      []volumemanager.Mount
	tornDown, unmapped []volumemanager.Unmount
	attached           []string
	expanded           []volumemanager.Expansion
	unstaged           []volumemanager.Device
}

func (r *recorder) UnmountDevice(ctx context.Context, d volumemanager.Device) error {
	r.unstaged = append(r.unstaged, d)
	return r.Plugin.UnmountDevice(ctx, d)
}

func (r *recorder) Expand(ctx context.Context, e volumemanager.Expansion) error {
	r.expanded = append(r.expanded, e)
	return r.Plugin.Expand(ctx, e)
}

func (r *recorder) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	r.setUp = append(r.setUp, m)
	return r.Plugin.SetUp(ctx, m)
}

func (r *recorder) MapBlock(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	r.mapped = append(r.mapped, m)
	return r.Plugin.MapBlock(ctx, m)
}

func (r *recorder) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	r.tornDown = append(r.tornDown, u)
	return r.Plugin.TearDown(ctx, u)
}

func (r *recorder) UnmapBlock(ctx context.Context, u volumemanager.Unmount) error {
	r.unmapped = append(r.unmapped, u)
	return r.Plugin.UnmapBlock(ctx, u)
}

func (r *recorder) WaitForAttach(ctx context.Context, spec volumemanager.Spec, hint string) (string, error) {
	r.attached = append(r.attached, hint)
	_, err := r.Plugin.WaitForAttach(ctx, spec, hint)
	return "/dev/found", err
}

// playRecorded is play with a recorder.
func playRecorded(t *testing.T, plugin volumetest.Options, edit func(*volumemanager.Options), f func(*stage, *recorder)) {
	var r *recorder
	play(t, plugin, func(o *volumemanager.Options) {
		r = &recorder{Plugin: o.Plugins[0].(*volumetest.Plugin)}
		o.Plugins[0] = r
		if edit != nil {
			edit(o)
		}
	}, func(s *stage) { f(s, r) })
}

func TestPluginIsToldThePodsOwners(t *testing.T) {
	playRecorded(t, volumetest.Options{}, nil, func(s *stage, r *recorder) {
		user, group, policy := int64(7), int64(12), v1.FSGroupChangeOnRootMismatch
		pod := podWith("a", "v")
		pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &user, FSGroup: &group, FSGroupChangePolicy: &policy}
		require.NoError(s, s.mount(pod))
		require.NoError(s, s.mount(podWith("b", "v")))
		require.Len(s, r.setUp, 2)
		m := r.setUp[0]
		assert.Equal(s, []any{&user, &group, &policy, []string{"v"}}, []any{m.FSUser, m.FSGroup, m.ChangePolicy, m.Outer})
		m = r.setUp[1]
		assert.Nil(s, m.FSUser)
		assert.Nil(s, m.FSGroup)
		assert.Nil(s, m.ChangePolicy)
	})
}

// A backend whose containers see other groups names the group on the host, also for a pod without a
// securityContext, and can leave an fsGroup out.
func TestTheCallerMapsTheGroupOfAPod(t *testing.T) {
	host := map[types.UID]*int64{"mapped": new(int64(1000)), "plain": new(int64(1001)), "left out": nil}
	playRecorded(t, volumetest.Options{}, func(o *volumemanager.Options) {
		o.FSGroup = func(pod *v1.Pod) *int64 { return host[pod.UID] }
	}, func(s *stage, r *recorder) {
		for _, uid := range []types.UID{"mapped", "plain", "left out"} {
			pod := podWith(uid, "v")
			if uid != "plain" {
				pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(472))}
			}
			require.NoError(s, s.mount(pod))
			assert.Equal(s, host[uid], r.setUp[len(r.setUp)-1].FSGroup, uid)
		}
	})
}

// A block volume is mapped and unmapped, and has no path for a volumeMount.
func TestBlockVolume(t *testing.T) {
	block := v1.PersistentVolumeBlock
	edit := func(o *volumemanager.Options) {
		o.Claims = claims(func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block })
	}
	playRecorded(t, volumetest.Options{Shared: true, Staged: true}, edit, func(s *stage, r *recorder) {
		pod := podClaiming("a", "c")
		c := &pod.Spec.Containers[0]
		mounts := c.VolumeMounts
		c.VolumeMounts, c.VolumeDevices = nil, []v1.VolumeDevice{{Name: "of-c", DevicePath: "/dev/c"}}
		require.NoError(s, s.mount(pod))
		assert.Len(s, r.mapped, 1)
		assert.True(s, s.manager.GetMountedVolumesForPod("a")["of-c"].Block)
		c.VolumeMounts = mounts
		_, _, _, err := s.manager.MountOf(s.Context(), pod, c, 0)
		require.EqualError(s, err, `volume "of-c": has no path on the host, so that a volumeMount cannot use it`)
		require.NoError(s, s.remove("a"))
		require.Len(s, r.unmapped, 1)
		assert.Equal(s, r.mapped[0].Place, r.unmapped[0].Place)
		assert.Equal(s, r.mapped[0].Spec, r.unmapped[0].Spec)
		assert.Empty(s, r.setUp)
		assert.Empty(s, r.tornDown)
	})
}

// The path in the node's status goes to WaitForAttach, whose result goes to the staging and SetUp.
func TestDevicePathGoesFromAttachingToSetUp(t *testing.T) {
	c := &cluster{attached: map[v1.UniqueVolumeName]string{attachedName: "/dev/hint"}}
	edit := func(o *volumemanager.Options) { o.Claims, o.Node = claims(), c }
	playRecorded(t, volumetest.Options{Shared: true, Staged: true, Attachable: true}, edit, func(s *stage, r *recorder) {
		wait := background(func() error { return s.mount(podClaiming("a", "c")) })
		synctest.Wait()
		s.manager.MarkVolumesAsReportedInUse(s.manager.GetVolumesInUse())
		require.NoError(s, wait())
		assert.Equal(s, []string{"/dev/hint"}, r.attached)
		require.Len(s, r.setUp, 1)
		assert.Equal(s, "/dev/found", r.setUp[0].DevicePath)
		assert.NotEmpty(s, r.setUp[0].DeviceDir)
		require.NoError(s, s.remove("a"))
		require.Len(s, r.tornDown, 1)
		assert.Equal(s, r.setUp[0].DeviceDir, r.tornDown[0].DeviceDir)
		assert.Equal(s, r.setUp[0].Spec, r.tornDown[0].Spec)
	})
}

// A volume is expanded in its first SetUp, and again when its claim has grown.
func TestPluginIsToldWhatToExpand(t *testing.T) {
	size := resource.MustParse("2Gi")
	edit := func(o *volumemanager.Options) {
		o.Claims = volumemanager.ClaimsFunc(func(ctx context.Context, pod *v1.Pod, vol v1.Volume) (volumemanager.Spec, error) {
			spec, err := claims()(ctx, pod, vol)
			spec.Size = size
			return spec, err
		})
	}
	playRecorded(t, volumetest.Options{Shared: true, Staged: true}, edit, func(s *stage, r *recorder) {
		from := resource.MustParse("1Gi")
		for i, to := range []string{"2Gi", "3Gi"} {
			size = resource.MustParse(to)
			require.NoError(s, s.mount(podClaiming("a", "c")))
			synctest.Wait()
			require.Len(s, r.expanded, i+1)
			e := r.expanded[i]
			assert.Equal(s, []string{from.String(), to}, []string{e.From.String(), e.To.String()})
			assert.Equal(s, s.root+"/pods/a/volumes/example.com~fake/pv-c", e.MountedPath)
			assert.Equal(s, s.root+"/plugins/example.com~fake/pv-c/globalmount", e.Dir)
			assert.Equal(s, "pv-c", e.Spec.PV.Name)
			from = size
		}
	})
}

// plain is a plugin without optional abilities, under the name of the fake.
type plain struct{ folders }

func (plain) Name() string { return "example.com/fake" }

func TestPluginWithoutAbilities(t *testing.T) {
	block := v1.PersistentVolumeBlock
	edit := func(o *volumemanager.Options) {
		o.Plugins = []volumemanager.Plugin{plain{}}
		o.Claims = claims(func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block })
	}
	play(t, volumetest.Options{}, edit, func(s *stage) {
		pod := podClaiming("a", "c")
		c := &pod.Spec.Containers[0]
		c.VolumeMounts, c.VolumeDevices = nil, []v1.VolumeDevice{{Name: "of-c", DevicePath: "/dev/c"}}
		require.ErrorContains(s, s.mount(pod), "volume of-c: plugin example.com/fake has no block volumes")
		require.NoError(s, s.mount(podWith("b", "v")))
		assert.FileExists(s, s.root+"/pods/b/volumes/example.com~fake/v/content")
		assert.Empty(s, s.manager.GetVolumesInUse())
	})
}

// vague is a plugin that cannot name its volumes or their staging folder.
type vague struct {
	*volumetest.Plugin
	id, dir error
}

func (p vague) VolumeID(spec volumemanager.Spec) (string, error) {
	if p.id != nil {
		return "", p.id
	}
	return p.Plugin.VolumeID(spec)
}

func (p vague) DeviceDir(root string, spec volumemanager.Spec) (string, error) {
	if p.dir != nil {
		return "", p.dir
	}
	return p.Plugin.DeviceDir(root, spec)
}

func TestPluginThatCannotNameAVolume(t *testing.T) {
	for _, p := range []vague{{id: errors.New("no ID")}, {dir: errors.New("no folder")}} {
		edit := func(o *volumemanager.Options) {
			p.Plugin = o.Plugins[0].(*volumetest.Plugin)
			o.Plugins[0], o.Claims = p, claims()
		}
		play(t, volumetest.Options{Shared: true, Staged: true}, edit, func(s *stage) {
			require.ErrorIs(s, s.mount(podClaiming("a", "c")), cmp.Or(p.id, p.dir))
			assert.Empty(s, s.plugin.Calls())
			assert.Empty(s, s.manager.Snapshot().Volumes)
		})
	}
}

// A volume that an earlier version of the plugin has staged stays known.
func TestPluginThatStagesNoMore(t *testing.T) {
	play(t, volumetest.Options{Shared: true, Staged: true}, func(o *volumemanager.Options) { o.Claims = claims() }, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		s.options.Plugins = []volumemanager.Plugin{plain{}}
		s.restart()
		require.NoError(s, s.remove("a"))
		time.Sleep(time.Minute)
		volumes := s.manager.Snapshot().Volumes
		require.NotEmpty(s, volumes)
		for _, v := range volumes {
			assert.Equal(s, volumemanager.StateUncertain, v.Device)
			require.EqualError(s, v.LastError, "the plugin stages no volumes")
		}
	})
}

// A record that cannot be written is named, and the volume is set up once it can.
func TestRecordThatCannotBeWritten(t *testing.T) {
	for _, file := range []string{"pods", "pods/a"} {
		play(t, volumetest.Options{}, nil, func(s *stage) { recordCannotBeWritten(s, file) })
	}
}

// recordCannotBeWritten puts a file in the place of a folder.
func recordCannotBeWritten(s *stage, file string) {
	s.files(file)
	wait := background(func() error { return s.mount(podWith("a", "v")) })
	time.Sleep(time.Second)
	volumes := s.manager.Snapshot().Volumes
	require.Len(s, volumes, 1)
	require.ErrorContains(s, volumes[0].Pods[0].LastError, "write the mount record: ")
	assert.Equal(s, volumemanager.StateNotMounted, volumes[0].Pods[0].State)
	assert.Empty(s, s.plugin.Calls())
	require.NoError(s, os.Remove(s.root+"/"+file))
	require.NoError(s, wait())
	assert.Equal(s, []string{"a/v"}, s.plugin.Mounted())
}
