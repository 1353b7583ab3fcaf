// SPDX-License-Identifier: Apache-2.0

package alarm_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/alarm"
)

var errRang = errors.New("rang")

func TestAlarm(t *testing.T) {
	for _, c := range []struct {
		name string
		set  []time.Duration // one after the other, at the begin of the call
		want time.Duration   // until the end of the context; 0: it does not end
	}{
		{"no time", nil, 0},
		{"a time", []time.Duration{time.Minute}, time.Minute},
		{"the last time counts: later", []time.Duration{time.Minute, time.Hour}, time.Hour},
		{"the last time counts: earlier", []time.Duration{time.Hour, time.Minute}, time.Minute},
		{"the last time counts: never", []time.Duration{time.Minute, alarm.Never}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a alarm.Alarm
				a.Set(time.Second) // between calls
				began := time.Now()
				call, stop := a.Begin(t.Context(), errRang)
				defer stop()
				for _, left := range c.set {
					a.Set(left)
				}
				select {
				case <-call.Done():
					require.Equal(t, c.want, time.Since(began))
					require.ErrorIs(t, context.Cause(call), errRang)
				case <-time.After(24 * time.Hour):
					require.Zero(t, c.want, "the context has not ended")
				}
			})
		})
	}
}

// The time of a call is not that of the next call.
func TestAlarmOfAnEarlierCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarm.Alarm
		first, stop := a.Begin(t.Context(), errRang)
		a.Set(time.Minute)
		stop()
		require.ErrorIs(t, context.Cause(first), context.Canceled)
		second, stop := a.Begin(t.Context(), errRang)
		defer stop()
		time.Sleep(time.Hour)
		require.NoError(t, second.Err())
	})
}
