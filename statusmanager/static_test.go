// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// TestStaticPods: the status of a static pod is written to its mirror pod, as soon as a mirror pod exists, and to each
// later mirror pod.
func TestStaticPods(t *testing.T) {
	for name, pods := range map[string]bool{"observed": false, "looked up": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, statustest.Options{})
				o := statusmanager.Options{Patcher: server}
				if pods {
					o.Pods = server
				}
				m := newManager(t, o)
				start(t, m)
				if !pods {
					server.Watch(m.Observed)
				}
				pod := testPod("hash", static)
				set := func(s v1.PodStatus) {
					_, err := m.SetPodStatus(pod, s)
					require.NoError(t, err)
				}
				set(status(v1.PodRunning, running("main")))
				settle()
				assert.Empty(t, server.Journal(), "nobody to write it to")

				mirror := server.CreateMirror(pod)
				time.Sleep(time.Minute + time.Second) // Pods are looked at by the resync
				assert.Equal(t, v1.PodRunning, server.Get(mirror.UID).Status.Phase)
				require.NoError(t, m.WaitSynced(t.Context(), "hash"))

				changed, err := m.SetContainerReadiness(mirror.UID, "fake://main", true)
				require.NoError(t, err)
				assert.True(t, changed, "by the UID of the mirror")
				byMirror, ok := m.GetPodStatus(mirror.UID)
				require.True(t, ok)
				own, _ := m.GetPodStatus("hash")
				assert.Equal(t, own, byMirror)

				server.Remove(mirror.UID)
				second := server.CreateMirror(pod)
				time.Sleep(time.Minute + time.Second)
				assert.Equal(t, v1.ConditionTrue, conditionStatus(server.Get(second.UID).Status, v1.PodReady))

				_, err = server.Delete(second.UID)
				require.NoError(t, err)
				set(status(v1.PodFailed, exited("main", 1)))
				_, err = m.TerminatePod(pod)
				require.NoError(t, err)
				settle()
				require.NotNil(t, server.Get(second.UID), "whoever made it deletes it")
				assert.Equal(t, v1.PodFailed, server.Get(second.UID).Status.Phase)

				set(status(v1.PodPending, waiting("main", "again")))
				settle()
				assert.Equal(t, v1.PodPending, server.Get(second.UID).Status.Phase, "it starts over under its UID")
			})
		})
	}
}

// TestMirrorBeforeItsPod: the watch may be faster than the file.
func TestMirrorBeforeItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := testPod("hash", static)
		mirror := n.server.CreateMirror(pod)
		other := n.server.CreateMirror(testPod("gone", static))
		n.RemoveOrphanedStatuses(func(uid types.UID) bool { return uid != other.UID })
		n.set(pod, status(v1.PodRunning, running("main")))
		n.set(testPod("gone", static), status(v1.PodRunning, running("main")))
		settle()
		assert.Equal(t, v1.PodRunning, n.api(mirror.UID).Phase)
		assert.Equal(t, v1.PodPending, n.api(other.UID).Phase, "that mirror was forgotten")
	})
}

// TestStaticPodOfTheSameName: a new version of a manifest has a new UID, and must not get the old one's status.
func TestStaticPodOfTheSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		named := func(p *v1.Pod) { p.Name = "web" }
		older, newer := testPod("v1", named, static), testPod("v2", named, static)
		n.server.CreateMirror(older)
		n.set(older, status(v1.PodRunning, running("main")))
		n.set(newer, status(v1.PodPending, waiting("main", "ContainerCreating")))
		settle()
		second := n.server.CreateMirror(newer)
		n.set(older, status(v1.PodFailed, exited("main", 137)))
		settle()
		assert.Equal(t, "ContainerCreating", n.api(second.UID).ContainerStatuses[0].State.Waiting.Reason)
	})
}

// TestStaticPodStartsOver: a static pod that comes back after its end, or with another manifest and the UID that both
// manifests name, has new containers, although those before had ended for good.
func TestStaticPodStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		once := func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyOnFailure }
		pod := testPod("named", static, once)
		mirror := n.server.CreateMirror(pod)
		n.set(pod, status(v1.PodRunning, exited("main", 0)))
		settle()
		edited := testPod("named", static, once)
		edited.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/gate"}}
		edited.Annotations["kubernetes.io/config.hash"] = "another"
		n.server.Remove(mirror.UID)
		mirror = n.server.CreateMirror(edited)
		n.set(edited, status(v1.PodRunning, running("main")))
		settle()
		assert.NotNil(t, n.api(mirror.UID).ContainerStatuses[0].State.Running)

		n.set(edited, status(v1.PodRunning, exited("main", 0)))
		_, err := n.TerminatePod(edited)
		require.NoError(t, err)
		_, err = n.server.Change(mirror.UID, func(p *v1.Pod) { // the status follows the gate, and the pod stays ended
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: "example.com/gate", Status: v1.ConditionTrue})
		})
		require.NoError(t, err)
		settle()
		n.set(edited, status(v1.PodRunning, running("main")))
		time.Sleep(time.Hour)
		assert.NotNil(t, n.api(mirror.UID).ContainerStatuses[0].State.Terminated, "API servers undo no end")
		for _, e := range n.server.Journal() {
			assert.NoError(t, e.Err, "a patch that API servers refuse is not sent")
		}
		n.server.Remove(mirror.UID)
		mirror = n.server.CreateMirror(edited)
		settle()
		assert.NotNil(t, n.api(mirror.UID).ContainerStatuses[0].State.Running, "a mirror pod that never showed the end")
	})
}

// TestStaticPodThatAnotherAgentHasEnded: the first status of an agent is the agent's own, whatever the mirror pod shows.
// The mirror pod of a new manifest may be observed before that first status, and before the first status of an edit.
func TestStaticPodThatAnotherAgentHasEnded(t *testing.T) {
	once := func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever }
	for name, before := range map[string]func(n *node, pod *v1.Pod){
		"another agent": func(n *node, pod *v1.Pod) {
			mirror := n.server.CreateMirror(pod)
			_, err := n.server.Change(mirror.UID, func(p *v1.Pod) {
				p.Status = status(v1.PodFailed, exited("main", 1))
			})
			require.NoError(t, err)
			settle()
			n.set(pod, status(v1.PodRunning, running("main")))
			settle()
			n.server.Remove(mirror.UID)
		},
		"another manifest": func(n *node, pod *v1.Pod) {
			edited := pod.DeepCopy()
			edited.Annotations["kubernetes.io/config.hash"] = "earlier"
			n.set(edited, status(v1.PodFailed, exited("main", 1)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, statustest.Options{}, statusmanager.Options{})
				pod := testPod("named", static, once)
				before(n, pod)
				mirror := n.server.CreateMirror(pod)
				settle()
				n.set(pod, status(v1.PodRunning, running("main")))
				settle()
				require.NotEmpty(t, n.api(mirror.UID).ContainerStatuses)
				assert.NotNil(t, n.api(mirror.UID).ContainerStatuses[0].State.Running)
				assert.Equal(t, v1.PodRunning, n.api(mirror.UID).Phase)
			})
		})
	}
}

// TestStatusOfTheManifestBefore: an edit under the same UID has a mirror pod before the containers of the earlier manifest
// have ended. Their end is not the new manifest's.
func TestStatusOfTheManifestBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := testPod("named", static, func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever })
		edited := pod.DeepCopy()
		edited.Annotations["kubernetes.io/config.hash"] = "another"
		pods := oneMirror{pod: n.server.CreateMirror(pod)}
		m := newManager(t, statusmanager.Options{Patcher: n.server, Pods: &pods})
		start(t, m)
		set := func(pod *v1.Pod, s v1.PodStatus) {
			_, err := m.SetPodStatus(pod, s)
			require.NoError(t, err)
			settle()
		}
		set(pod, status(v1.PodRunning, running("main")))
		n.server.Remove(pods.pod.UID)
		pods.pod = n.server.CreateMirror(edited)
		set(pod, status(v1.PodFailed, exited("main", 137)))
		assert.Empty(t, n.api(pods.pod.UID).ContainerStatuses)
		set(edited, status(v1.PodRunning, running("main")))
		require.NotEmpty(t, n.api(pods.pod.UID).ContainerStatuses)
		assert.NotNil(t, n.api(pods.pod.UID).ContainerStatuses[0].State.Running)
	})
}

// oneMirror has one mirror pod, and looks for it by the UID of the static pod alone.
type oneMirror struct{ pod *v1.Pod }

func (o *oneMirror) Pod(types.UID) (*v1.Pod, bool)          { return nil, false }
func (o *oneMirror) Mirror(types.UID) (*v1.Pod, bool)       { return o.pod, true }
func (o *oneMirror) Static(uid types.UID) (types.UID, bool) { return uid, false }

// withoutGetter is a Patcher that cannot tell which pod the server has.
type withoutGetter struct{ statusmanager.Patcher }

// TestAnswerAboutAReplacedMirrorPod: a mirror pod is replaced while a status for it is on its way. The answer says nothing
// about the new mirror pod, which gets the status at once.
func TestAnswerAboutAReplacedMirrorPod(t *testing.T) {
	for name, patcher := range map[string]func(*statustest.Server) statusmanager.Patcher{
		"with a getter":    func(s *statustest.Server) statusmanager.Patcher { return s },
		"without a getter": func(s *statustest.Server) statusmanager.Patcher { return withoutGetter{s} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, statustest.Options{Latency: 100 * time.Millisecond})
				m := newManager(t, statusmanager.Options{Patcher: patcher(server)})
				start(t, m)
				server.Watch(m.Observed)
				pod := testPod("hash", static)
				first := server.CreateMirror(pod)
				_, err := m.SetPodStatus(pod, status(v1.PodPending, waiting("main", "ContainerCreating")))
				require.NoError(t, err)
				settle()
				_, err = m.SetPodStatus(pod, status(v1.PodRunning, running("main")))
				require.NoError(t, err)
				time.Sleep(50 * time.Millisecond)
				server.Remove(first.UID)
				second := server.CreateMirror(pod)
				settle()
				assert.Equal(t, v1.PodRunning, server.Get(second.UID).Status.Phase)
			})
		})
	}
}

// staleMirrors returns the mirror pod of an outdated cache.
type staleMirrors struct {
	*statustest.Server
	mirror *v1.Pod
}

func (s staleMirrors) Mirror(types.UID) (*v1.Pod, bool) { return s.mirror, true }

// TestMirrorReplacedBehindTheCache: the answer to a GET shows the mirror pod that has replaced the known one. Its
// status is written at once, and the outdated cache has no effect on later statuses.
func TestMirrorReplacedBehindTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{})
		pod := testPod("hash", static)
		first := server.CreateMirror(pod)
		m := newManager(t, statusmanager.Options{Patcher: server, Pods: staleMirrors{server, first}})
		start(t, m)
		set := func(s v1.PodStatus) {
			_, err := m.SetPodStatus(pod, s)
			require.NoError(t, err)
			synctest.Wait()
		}
		set(status(v1.PodPending, waiting("main", "ContainerCreating")))
		require.Equal(t, v1.PodPending, server.Get(first.UID).Status.Phase)
		server.Remove(first.UID)
		second := server.CreateMirror(pod)
		for i := range 20 {
			reason := fmt.Sprintf("Reason%d", i)
			set(status(v1.PodPending, waiting("main", reason)))
			shown := server.Get(second.UID).Status.ContainerStatuses
			require.NotEmpty(t, shown, "at once")
			assert.Equal(t, reason, shown[0].State.Waiting.Reason, "at once")
		}
		refused := 0
		for _, e := range server.Journal() {
			if e.Err != nil {
				refused++
			}
		}
		assert.Equal(t, 1, refused)
	})
}
