// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A timer may fire at the instant of an update or of the end of Run: there is one call at a time, and Run returns.
func TestTimersAtTheInstantOfAnotherEvent(t *testing.T) {
	for name, event := range map[string]func(w *Workers, stop func()){
		"the end of Run": func(_ *Workers, stop func()) { stop() },
		"Sync":           func(w *Workers, _ func()) { w.Sync("a") },
		"a kill":         func(w *Workers, _ func()) { _ = w.UpdatePod(Update{Type: UpdateKill, Pod: testPod("a")}) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 200 {
				synctest.Test(t, func(t *testing.T) {
					calls, under := 0, make(chan struct{}, 1)
					w := newWorkers(t, Options{Syncer: &funcSyncer{sync: func(context.Context, SyncRequest) (Outcome, error) {
						calls++
						select {
						case under <- struct{}{}:
						default:
							t.Error("two calls at a time")
						}
						if calls > 1 {
							time.Sleep(time.Second)
						}
						<-under
						return Outcome{}, nil
					}}})
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan error)
					go func() { ended <- w.Run(ctx) }()
					send(t, w, Update{Type: UpdateCreate, Pod: testPod("a")})
					time.AfterFunc(time.Minute, func() { event(w, stop) })
					time.Sleep(90 * time.Second)
					stop()
					require.NoError(t, <-ended)
					require.LessOrEqual(t, calls, 3)
				})
			}
		})
	}
}
