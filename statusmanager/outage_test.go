// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// TestOutage: nobody storms a server that is down, and when it is back the terminal go first.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 5 * time.Millisecond}, statusmanager.Options{})
		var pods []*v1.Pod
		for _, uid := range uids("p", 100) {
			pods = append(pods, n.server.Create(testPod(uid)))
		}
		down := inject(t, n.server, statustest.Fault{Err: errors.New("connection refused")})
		for i, pod := range pods {
			switch {
			case i%10 == 9:
				n.set(pod, status(v1.PodFailed, exited("main", 1)))
			default:
				n.set(pod, status(v1.PodRunning, ready("main")))
			}
		}
		time.Sleep(time.Minute)
		assert.True(t, n.Stats().Outage)
		assert.Less(t, down.Hits(), 30)
		requested := len(n.server.Journal())
		down.Clear()
		time.Sleep(6 * time.Second)
		assert.False(t, n.Stats().Outage)
		assert.Zero(t, n.Stats().Unsynced)
		after := n.server.Journal()[requested:]
		after = slices.DeleteFunc(after, func(e statustest.Entry) bool { return e.Err != nil })
		require.Len(t, after, 100)
		var lastTerminal, firstOther time.Duration
		for _, e := range after[1:] { // the first is whoever asked
			switch {
			case e.Phase == v1.PodFailed:
				lastTerminal = max(lastTerminal, e.At)
			case firstOther == 0:
				firstOther = e.At
			}
		}
		assert.LessOrEqual(t, lastTerminal, firstOther, n.server.Journal())
	})
}

// TestOutageEndsWithAnyNews: a watch that is back is proof enough.
func TestOutageEndsWithAnyNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		down := inject(t, n.server, statustest.Fault{Err: errors.New("connection refused")})
		for _, uid := range uids("p", 10) {
			n.set(n.server.Create(testPod(uid)), status(v1.PodRunning, ready("main")))
		}
		time.Sleep(30 * time.Second)
		down.Clear()
		n.server.Create(testPod("other"))
		synctest.Wait()
		assert.Zero(t, n.Stats().Unsynced)
	})
}
