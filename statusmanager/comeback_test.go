// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"errors"
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

// A pod that is forgotten and comes back while its last request is in flight begins without the
// failures of its former record.
func TestFailuresAreForgottenWithTheirPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: time.Second}, statusmanager.Options{})
		inject(t, n.server, statustest.Fault{Err: errors.New("broken")})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, running("main")))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, n.Stats().Failing)
		require.Equal(t, 1, n.Stats().InFlight, "the second try")
		n.RemoveOrphanedStatuses(func(types.UID) bool { return false })
		n.set(pod, status(v1.PodRunning, ready("main")))
		assert.Zero(t, n.Stats().Failing)
	})
}

// keep may call the Manager, and is asked about each pod that is not forgotten yet.
func TestForgettingWithinForgetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: time.Second}, statusmanager.Options{})
		n.server.CreateMirror(testPod("static", static)) // its pod has no status
		n.set(n.server.Create(testPod("b")), status(v1.PodRunning, running("main")))
		time.Sleep(time.Minute) // no request is in flight any more
		n.set(n.server.Create(testPod("a")), status(v1.PodRunning, running("main")))
		synctest.Wait()
		var asked []types.UID
		none := func(uid types.UID) bool {
			asked = append(asked, uid)
			return false
		}
		within := func(types.UID) bool {
			n.RemoveOrphanedStatuses(none)
			return false
		}
		n.RemoveOrphanedStatuses(within)
		assert.Len(t, asked, 3, "each pod and the mirror pod, once each: %s", asked)
		assert.Zero(t, n.Stats().Pods)
		n.server.CreateMirror(testPod("another", static))
		n.RemoveOrphanedStatuses(within)
		assert.Len(t, asked, 4, "the mirror pod without a pod: %s", asked)
	})
}
