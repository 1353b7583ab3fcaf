// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// crashes replays a container that ends after ran, and returns the times of its starts relative to
// the first start.
func crashes(t *testing.T, b Backoff, ran time.Duration, horizon time.Duration) []time.Duration {
	t.Helper()
	starts := []time.Duration{0}
	instance := &ContainerStatus{Hash: "h", CreatedAt: epoch, StartedAt: epoch}
	for {
		instance.State = StateExited
		instance.FinishedAt = instance.StartedAt.Add(ran)
		next := b.next(instance, "h", instance.FinishedAt)
		at := instance.FinishedAt
		if next.At.After(at) {
			at = next.At
		}
		if at.Sub(epoch) > horizon {
			return starts
		}
		starts = append(starts, at.Sub(epoch))
		instance = &ContainerStatus{
			Hash: "h", CreatedAt: at, StartedAt: at,
			Annotations: map[string]string{annotationRestartDelay: next.Delay.String()},
		}
	}
}

func TestBackoffDoublesFromTheSecondRestartToTheMaximum(t *testing.T) {
	starts := crashes(t, Backoff{}, time.Second, 45*time.Minute)
	var waits []time.Duration
	for i := 1; i < len(starts); i++ {
		waits = append(waits, starts[i]-starts[i-1]-time.Second)
	}
	require.Greater(t, len(waits), 8)
	assert.Equal(t, []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second,
		160 * time.Second, 300 * time.Second, 300 * time.Second}, waits[:8])
}

func TestBackoffResetsAfterTenMinutesOfHealth(t *testing.T) {
	for name, tc := range map[string]struct {
		lived time.Duration
		want  time.Duration // until the restart
		carry time.Duration // for the one after
	}{
		"exactly ten minutes is not more": {10 * time.Minute, 160 * time.Second, 300 * time.Second},
		"a moment more":                   {10*time.Minute + time.Nanosecond, 0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c := &ContainerStatus{
				State: StateExited, Hash: "h", CreatedAt: epoch, StartedAt: epoch, FinishedAt: epoch.Add(tc.lived),
				Annotations: map[string]string{annotationRestartDelay: "2m40s"},
			}
			next := Backoff{}.next(c, "h", c.FinishedAt)
			at := c.FinishedAt
			if !next.At.IsZero() {
				at = next.At
			}
			assert.Equal(t, tc.want, at.Sub(c.FinishedAt))
			assert.Equal(t, tc.carry, next.Delay)
		})
	}
}

func TestBackoffOfOtherInstances(t *testing.T) {
	exited := ContainerStatus{
		State: StateExited, Hash: "old", CreatedAt: epoch, StartedAt: epoch, FinishedAt: epoch.Add(time.Second),
		Annotations: map[string]string{annotationRestartDelay: "40s"},
	}
	assert.Zero(t, Backoff{}.next(nil, "h", epoch), "a first start waits for nothing")
	assert.Zero(t, Backoff{}.next(&exited, "new", epoch.Add(time.Minute)), "a changed spec starts afresh")

	unreadable := exited
	unreadable.Annotations = map[string]string{annotationRestartDelay: "soon"}
	assert.Equal(t, restart{Delay: 10 * time.Second}, Backoff{}.next(&unreadable, "old", epoch.Add(time.Minute)))

	shorter := Backoff{Max: 5 * time.Second}.next(&exited, "old", epoch.Add(time.Minute))
	assert.Equal(t, exited.FinishedAt.Add(5*time.Second), shorter.At, "a lowered maximum holds at once")
}

// In the kubelet a container with failing starts is tried every 10 s for ever, and each try counts
// as a restart (contract, quirk Q2).
func TestUpstreamQ2FailedStartsBackOffToo(t *testing.T) {
	created := ContainerStatus{
		State: StateCreated, Hash: "h", CreatedAt: epoch,
		Annotations: map[string]string{annotationRestartDelay: "20s"},
	}
	next := Backoff{}.next(&created, "h", epoch)
	assert.Equal(t, epoch.Add(20*time.Second), next.At)
	assert.Equal(t, 40*time.Second, next.Delay)
}

// A clock that was set back makes an end lie in the future; a container does not
// wait for the clock to catch up.
func TestBackoffAfterTheClockWasSetBack(t *testing.T) {
	exited := ContainerStatus{
		State: StateExited, Hash: "h", CreatedAt: epoch, StartedAt: epoch, FinishedAt: epoch.Add(time.Second),
		Annotations: map[string]string{annotationRestartDelay: "40s"},
	}
	assert.Equal(t, restart{Delay: 10 * time.Second}, Backoff{}.next(&exited, "h", epoch.Add(-time.Hour)))
}
