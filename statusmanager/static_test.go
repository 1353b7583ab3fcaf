// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
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

// TestStaticPods: the status of a static pod goes to its mirror, as soon as there is one, and to each that follows.
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
