// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// stage is a manager with a fake plugin, in virtual time.
type stage struct {
	*testing.T
	root    string
	pods    *volumetest.Pods
	plugin  *volumetest.Plugin
	options volumemanager.Options
	manager *volumemanager.Manager
	stop    func()

	mu   sync.Mutex
	ends []volumemanager.OperationEnd
}

// play runs f in a bubble with a running manager.
func play(t *testing.T, plugin volumetest.Options, edit func(*volumemanager.Options), f func(*stage)) {
	t.Helper()
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, root, plugin, edit)
		s.start()
		defer func() { s.stop() }()
		f(s)
		synctest.Wait()
		s.stop()
		require.Empty(t, s.plugin.Violations())
	})
}

func newStage(t *testing.T, root string, plugin volumetest.Options, edit func(*volumemanager.Options)) *stage {
	s := &stage{T: t, root: root, pods: &volumetest.Pods{}}
	if plugin.Gone == nil {
		plugin.Gone = s.pods.ShouldPodRuntimeBeRemoved
	}
	s.plugin = volumetest.NewPlugin(plugin)
	s.options = volumemanager.Options{
		Pods: s.pods, Root: root, Plugins: []volumemanager.Plugin{s.plugin}, Logger: zap.NewNop(),
		Hooks: volumemanager.Hooks{OperationEnded: func(e volumemanager.OperationEnd) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ends = append(s.ends, e)
		}},
	}
	s.options.SetLimits(volumemanager.Limits{Resync: 1000 * time.Hour}) // the tests see what works without it
	if edit != nil {
		edit(&s.options)
	}
	s.stop = func() {}
	s.renew()
	return s
}

// renew creates a new manager without running it.
func (s *stage) renew() {
	var err error
	s.manager, err = volumemanager.New(s.options)
	require.NoError(s, err)
}

func (s *stage) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	m := s.manager
	go func() { done <- m.Run(ctx) }()
	synctest.Wait()
	s.stop = sync.OnceFunc(func() {
		cancel()
		s.plugin.Release()
		require.NoError(s, <-done)
	})
}

// restart ends the manager and starts a new manager over the same disk and mounts.
func (s *stage) restart() {
	s.stop()
	s.renew()
	s.start()
}

// background calls f in a goroutine. The returned func waits for the result of f.
func background(f func() error) func() error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error { return <-done }
}

func (s *stage) mount(pod *v1.Pod) error { return s.manager.WaitForAttachAndMount(s.Context(), pod) }

func (s *stage) remove(uid types.UID) error {
	s.pods.Set(uid, volumetest.Gone)
	return s.manager.WaitForUnmount(s.Context(), uid)
}

// ended returns the finished operations, as "<kind> <pod>".
func (s *stage) ended() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, e := range s.ends {
		lines = append(lines, e.Kind.String()+" "+string(e.PodUID))
	}
	return lines
}

// recordOf returns the path of the mount record of a volume.
func (s *stage) recordOf(uid types.UID, inner string) string {
	p := volumemanager.Place{Root: s.root, PodUID: uid, Plugin: s.plugin.Name(), Inner: inner}
	return p.Record()
}

// memoryDir returns a temporary folder in memory if possible, because syncing is free there.
func memoryDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "volumemanager")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	return dir
}

// podWith returns a pod whose container mounts emptyDirs of these names.
func podWith(uid types.UID, names ...string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod-" + string(uid), Namespace: "default", UID: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "image"}}},
	}
	for _, name := range names {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{
			Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
		})
		use(pod, name)
	}
	return pod
}

// podClaiming returns a pod whose container mounts claims of these names.
func podClaiming(uid types.UID, claims ...string) *v1.Pod {
	pod := podWith(uid)
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, claimVolume("of-"+claim, claim))
		use(pod, "of-"+claim)
	}
	return pod
}

func claimVolume(name, claim string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

func use(pod *v1.Pod, volume string) {
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: volume, MountPath: "/" + volume})
}

// persistent returns a PV of 1 GiB.
func persistent(name string, edit ...func(*v1.PersistentVolume)) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
			Capacity:    v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}
	for _, e := range edit {
		e(pv)
	}
	return pv
}

// claims resolves each claim to the PV "pv-<claim>".
func claims(edit ...func(*v1.PersistentVolume)) volumemanager.ClaimsFunc {
	return func(_ context.Context, _ *v1.Pod, vol v1.Volume) (volumemanager.Spec, error) {
		pv := persistent("pv-"+vol.PersistentVolumeClaim.ClaimName, edit...)
		return volumemanager.Spec{PV: pv, Size: pv.Spec.Capacity[v1.ResourceStorage], Claimed: resource.MustParse("1Gi")}, nil
	}
}
