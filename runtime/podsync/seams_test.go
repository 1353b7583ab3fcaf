// SPDX-License-Identifier: Apache-2.0

package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// volumes are mounted when ready says so.
type volumes struct {
	mu        sync.Mutex
	ready     bool
	unmounted int
	cleaned   []types.UID // of left
	left      []types.UID
	looks     int
}

func (v *volumes) WaitForAttachAndMount(ctx context.Context, _ *v1.Pod) error {
	v.mu.Lock()
	ready := v.ready
	v.mu.Unlock()
	if ready {
		return nil
	}
	<-ctx.Done()
	return errors.New("unmounted volumes=[data]")
}

func (v *volumes) WaitForUnmount(context.Context, types.UID) error {
	v.unmounted++
	return nil
}

func (v *volumes) PodsOnDisk() ([]types.UID, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.looks++
	return v.left, nil
}

func (v *volumes) CleanupOrphan(uid types.UID) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.Contains(v.left, uid) {
		v.cleaned = append(v.cleaned, uid)
	}
	return nil
}

func (v *volumes) MountOf(_ context.Context, _ *v1.Pod, c *v1.Container, i int) (string, bool, bool, error) {
	if c.VolumeMounts[i].Name != "data" {
		return "", false, false, errors.New("is not mounted")
	}
	return "/host/data", true, false, nil
}

func (v *volumes) GetExtraSupplementalGroupsForPod(*v1.Pod) []int64 { return []int64{7} }

// TestAPodWaitsForItsVolumes: the status names the missing volume, and other pods do not wait.
func TestAPodWaitsForItsVolumes(t *testing.T) {
	v := &volumes{}
	play(t, func(o *podsync.Options) { o.Volumes = v }, func(n *node) {
		pod := newPod("web", v1.RestartPolicyAlways)
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		n.drive(pod, time.Minute)
		waiting := n.status().ContainerStatuses[0].State.Waiting
		require.NotNil(n, waiting)
		assert.Equal(n, "unmounted volumes=[data]", waiting.Message)
		assert.Zero(n, n.world.Count(starts))

		v.mu.Lock()
		v.ready = true
		v.mu.Unlock()
		n.drive(pod, time.Minute)
		assert.Equal(n, v1.PodRunning, n.status().Phase)
		n.end(pod, nil)
		assert.Equal(n, 1, v.unmounted)
	})
}

// TestAnEndDuringTheWaitForVolumesIsShown: if a container ends while a sync waits for volumes, the
// status that names the missing volume shows the end.
func TestAnEndDuringTheWaitForVolumesIsShown(t *testing.T) {
	v, always := &volumes{ready: true}, v1.ContainerRestartPolicyAlways
	play(t, func(o *podsync.Options) { o.Volumes = v }, func(n *node) {
		n.world.Script(fake.Target{Container: "sidecar"}, fake.Exit(65*time.Second, 0))
		pod := newPod("web", v1.RestartPolicyAlways)
		pod.Spec.InitContainers = []v1.Container{{Name: "sidecar", Image: "i", RestartPolicy: &always}, {Name: "init", Image: "i"}}
		n.drive(pod, time.Minute)
		require.NotNil(n, n.status().InitContainerStatuses[0].State.Running)

		v.mu.Lock()
		v.ready = false
		v.mu.Unlock()
		n.drive(pod, 15*time.Second)
		n.mu.Lock()
		defer n.mu.Unlock()
		named := slices.IndexFunc(n.statuses, func(s v1.PodStatus) bool {
			w := s.ContainerStatuses[0].State.Waiting
			return w != nil && w.Message == "unmounted volumes=[data]"
		})
		require.GreaterOrEqual(n, named, 0)
		assert.Nil(n, n.statuses[named].InitContainerStatuses[0].State.Running, "the sidecar has ended 5 s before")
	})
}

// TestRenewedVolumesNeedSyncs: a pod rests if the runtime hints at each change, except a pod with a
// volume such as a token, whose content the syncs of the pod renew.
func TestRenewedVolumesNeedSyncs(t *testing.T) {
	host := v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data"}}
	token := v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}
	for name, test := range map[string]struct {
		source   v1.VolumeSource
		complete bool
		rests    bool
	}{"host": {host, true, true}, "token": {token, true, false}, "no hints": {host, false, false}} {
		t.Run(name, func(t *testing.T) {
			play(t, func(o *podsync.Options) { o.Volumes = &volumes{ready: true} }, func(n *node) {
				n.stop()
				n.complete = test.complete
				n.start()
				pod := newPod("web", v1.RestartPolicyAlways)
				pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: test.source}}
				n.drive(pod, time.Minute)
				assert.Equal(n, v1.PodRunning, n.status().Phase)
				assert.Equal(n, test.rests, n.pods.Rests(pod.UID))
			})
		})
	}
}

// TestLeftoversOfVolumesGo: only the volumes of gone pods are removed.
func TestLeftoversOfVolumesGo(t *testing.T) {
	v := &volumes{ready: true, left: []types.UID{"uid-web", "gone"}}
	play(t, func(o *podsync.Options) { o.Volumes = v }, func(n *node) {
		close(n.synced)
		n.drive(newPod("web", v1.RestartPolicyAlways), 10*time.Minute)
		v.mu.Lock()
		defer v.mu.Unlock()
		assert.Contains(n, v.cleaned, types.UID("gone"))
		assert.NotContains(n, v.cleaned, types.UID("uid-web"))
	})
}

// probes returns the last result set by the test for every container.
type probes struct {
	mu       sync.Mutex
	dead     string // the instance with a failed liveness probe
	ready    bool
	observed int
	stopped  bool
	removed  bool
	dirty    chan struct{}
}

func (p *probes) say(dead string, ready bool) {
	p.mu.Lock()
	p.dead, p.ready = dead, ready
	p.mu.Unlock()
	p.dirty <- struct{}{}
}

func (p *probes) Observe(*v1.Pod, *v1.PodStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observed++
}

func (p *probes) Alive(id string) (bool, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return id != p.dead, true
}

func (p *probes) Ready(string) (bool, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready, true
}

func (p *probes) Started(string) (bool, bool)          { return true, true }
func (p *probes) StopLivenessAndStartup(uid types.UID) { p.stopped = true }
func (p *probes) RemovePod(types.UID)                  { p.removed = true }
func (p *probes) Dirty() <-chan struct{}               { return p.dirty }
func (p *probes) Take() []types.UID                    { return []types.UID{"uid-web"} }

// TestPodsWithoutProbesAreNotObserved: Observe is called for a pod that has or had probes.
func TestPodsWithoutProbesAreNotObserved(t *testing.T) {
	p := &probes{}
	play(t, func(o *podsync.Options) { p.dirty, o.Probes = make(chan struct{}, 1), p }, func(n *node) {
		without := newPod("web", v1.RestartPolicyAlways)
		n.drive(without, time.Minute)
		assert.Zero(n, p.observed)

		with := without.DeepCopy()
		with.Spec.Containers[0].LivenessProbe = &v1.Probe{}
		n.drive(with, time.Minute)
		before := p.observed
		assert.Positive(n, before)

		n.drive(without.DeepCopy(), time.Minute)
		assert.Greater(n, p.observed, before, "the prober has to end the probes")
	})
}

func TestProbesDecide(t *testing.T) {
	p := &probes{}
	play(t, func(o *podsync.Options) { p.dirty, o.Probes = make(chan struct{}, 1), p }, func(n *node) {
		pod := newPod("web", v1.RestartPolicyAlways)
		probe := &v1.Probe{}
		pod.Spec.Containers[0].LivenessProbe, pod.Spec.Containers[0].ReadinessProbe = probe, probe
		n.drive(pod, time.Minute)
		status := n.status()
		assert.False(n, podsync.Ready(&status))
		assert.Positive(n, p.observed)

		p.say("", true)
		n.drive(pod, time.Second)
		status = n.status()
		assert.True(n, podsync.Ready(&status))

		p.say(status.ContainerStatuses[0].ContainerID, true)
		n.drive(pod, time.Minute)
		status = n.status()
		assert.Equal(n, int32(1), status.ContainerStatuses[0].RestartCount, "a container that is not alive is restarted, once")
		assert.NotNil(n, status.ContainerStatuses[0].State.Running)
		n.end(pod, nil)
		assert.True(n, p.stopped && p.removed)
	})
}

// adopted are volumes of a pod that an earlier agent has mounted. CleanupOrphan leaves the pod's
// directories to a later call while the volumes are mounted, as *volumemanager.Manager does.
type adopted struct {
	volumes
	uid              types.UID
	mounted, present bool
}

func (a *adopted) WaitForUnmount(_ context.Context, uid types.UID) error {
	time.Sleep(time.Second)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mounted = a.mounted && uid != a.uid
	return nil
}

func (a *adopted) PodsOnDisk() (uids []types.UID, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.present {
		uids = append(uids, a.uid)
	}
	return uids, nil
}

func (a *adopted) CleanupOrphan(uid types.UID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if uid == a.uid {
		a.present = a.present && a.mounted
	}
	return nil
}

// TestVolumesOfAnEarlierAgentAreRemovedAtOnce: the directories of a pod that ends after a restart of the
// agent do not stay until the next look for remains, which is minutes later if the runtime hints at
// each change.
func TestVolumesOfAnEarlierAgentAreRemovedAtOnce(t *testing.T) {
	v := &adopted{uid: "former"}
	v.ready = true
	play(t, func(o *podsync.Options) { o.Volumes = v }, func(n *node) {
		n.complete = true
		n.stop()
		n.start()
		close(n.synced)
		time.Sleep(time.Minute)
		v.mu.Lock()
		v.mounted, v.present = true, true
		v.mu.Unlock()
		n.pods.Forgotten(v.uid)
		time.Sleep(5 * time.Second)
		v.mu.Lock()
		defer v.mu.Unlock()
		assert.False(n, v.present)
	})
}

// TestAuditsEndAfterAMinute: a runtime that hints at each change is audited often in the first minute, and
// then with each collection of garbage.
func TestAuditsEndAfterAMinute(t *testing.T) {
	play(t, nil, func(n *node) {
		n.stop()
		n.complete = true
		n.start()
		began := time.Now()
		time.Sleep(time.Hour - time.Second)
		n.stop()
		var at []time.Duration
		for _, audit := range n.audits {
			at = append(at, audit.Sub(began)/time.Second)
		}
		assert.Equal(t, []time.Duration{3, 9, 21, 45, 645, 1245, 1845, 2445, 3045}, at)
	})
}

// TestManyPodsAskForFewLooks: each look for remains reads every pod of the node. Pods that end at the
// same time, and ask for a look one after the other, get one each second, the last one included.
func TestManyPodsAskForFewLooks(t *testing.T) {
	v := &volumes{}
	play(t, func(o *podsync.Options) { o.Volumes = v }, func(n *node) {
		n.complete = true
		n.stop()
		n.start()
		close(n.synced)
		time.Sleep(time.Minute)
		looks := func() int {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.looks
		}
		before := looks()
		for i := range 1000 {
			n.pods.Recheck(types.UID(fmt.Sprint("gone-", i)))
			time.Sleep(2 * time.Millisecond)
		}
		assert.InDelta(n, 2, looks()-before, 1, "in two seconds")
		v.mu.Lock()
		v.left = []types.UID{"left"}
		v.mu.Unlock()
		n.pods.Recheck("left")
		time.Sleep(time.Second)
		synctest.Wait()
		v.mu.Lock()
		defer v.mu.Unlock()
		assert.Contains(n, v.cleaned, types.UID("left"), "after a second at most")
	})
}

// TestRemovalsWaitForStops: of many pods that end at the same time, the remains of 16 are removed at once. A hung
// removal delays the others by 2 s at most.
func TestRemovalsWaitForStops(t *testing.T) {
	play(t, nil, func(n *node) {
		n.complete = true
		n.stop()
		n.start()
		close(n.synced)
		var pods []*v1.Pod
		for i := range 40 {
			pods = append(pods, newPod(fmt.Sprint(i), v1.RestartPolicyAlways))
			n.drive(pods[i], time.Second)
		}
		slow, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveSandbox}, Latency: 1900 * time.Millisecond})
		require.NoError(n, err)
		left := func(after time.Duration, want int) {
			n.Helper()
			time.Sleep(after)
			synctest.Wait()
			assert.Len(n, n.world.Truth(), want)
		}
		for _, pod := range pods {
			n.end(pod, nil)
		}
		left(1899*time.Millisecond, 40)
		left(time.Millisecond, 24)
		left(1900*time.Millisecond, 8)
		left(100*time.Millisecond, 0) // patience was over after 2 s
		slow.Clear()

		for _, pod := range pods {
			n.drive(pod, time.Second)
		}
		for _, pod := range pods[:20] {
			_, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveSandbox, UID: pod.UID}, HangUntilCtx: true})
			require.NoError(n, err)
		}
		for i, pod := range pods {
			if n.end(pod, nil); i == 19 {
				synctest.Wait() // the removals that hang have all turns
			}
		}
		left(1999*time.Millisecond, 40)
		left(time.Millisecond, 20)
	})
}
