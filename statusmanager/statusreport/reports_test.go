// SPDX-License-Identifier: Apache-2.0

package statusreport_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/statusmanager/statusreport"
)

// uplink is a server that can be down. It hangs, fails, or refuses a pod for ever.
type uplink struct {
	mu      sync.Mutex
	down    bool
	hangs   bool
	refused string
	got     []string
	calls   int
}

func (u *uplink) send(ctx context.Context, r statusreport.Report) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
	switch {
	case u.hangs:
		u.mu.Unlock()
		<-ctx.Done()
		u.mu.Lock()
		return ctx.Err()
	case u.down:
		return errors.New("no route to host")
	case r.Name == u.refused:
		return errors.New("too large")
	}
	phase := v1.PodPhase("gone")
	if r.Status != nil {
		phase = r.Status.Phase
	}
	u.got = append(u.got, fmt.Sprint(r.Name, " ", phase))
	return nil
}

func (u *uplink) set(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
}

// take returns the reports since the last call.
func (u *uplink) take() []string {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	got := u.got
	u.got = nil
	return got
}

func pod(name string) *v1.Pod {
	p := &v1.Pod{}
	p.Namespace, p.Name = "default", name
	return p
}

func run(t *testing.T, o statusreport.Options, body func(*statusreport.Reports, *uplink)) {
	synctest.Test(t, func(t *testing.T) {
		u := &uplink{}
		o.Send = u.send
		r, err := statusreport.New(o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, r.Run(ctx)) })
		body(r, u)
		cancel()
		wg.Wait()
		require.Error(t, r.Run(t.Context()))
	})
}

// Statuses during an outage become one report per pod, the latest.
func TestReportsCoalesce(t *testing.T) {
	var problems []string
	run(t, statusreport.Options{Problem: func(err error) { problems = append(problems, fmt.Sprint(err)) }}, func(r *statusreport.Reports, u *uplink) {
		r.Set(pod("a"), v1.PodStatus{Phase: v1.PodRunning})
		assert.Equal(t, []string{"a Running"}, u.take())
		u.set(func() { u.down = true })
		for i := range 1000 {
			r.Set(pod("a"), v1.PodStatus{Phase: v1.PodPhase(fmt.Sprint(i))})
			r.Set(pod("b"), v1.PodStatus{Phase: v1.PodPending})
			time.Sleep(time.Second)
		}
		r.Gone(pod("b"))
		r.Set(pod("c"), v1.PodStatus{Phase: v1.PodFailed})
		u.set(func() {
			assert.Less(t, u.calls, 60, "back-off")
			u.down = false
		})
		time.Sleep(3 * time.Minute)
		assert.ElementsMatch(t, []string{"a 999", "b gone", "c Failed"}, u.take())
		assert.Equal(t, []string{"status of pod default/a: no route to host", "<nil>"}, problems)
		time.Sleep(time.Hour)
		assert.Empty(t, u.take(), "nothing is sent twice")
	})
}

// An uplink that hangs or refuses a report for ever does not keep the other reports back.
func TestBadUplinks(t *testing.T) {
	run(t, statusreport.Options{}, func(r *statusreport.Reports, u *uplink) {
		u.set(func() { u.hangs, u.refused = true, "bad" })
		r.Set(pod("bad"), v1.PodStatus{Phase: v1.PodRunning})
		time.Sleep(5 * time.Second)
		u.set(func() { u.hangs = false })
		r.Set(pod("good"), v1.PodStatus{Phase: v1.PodRunning})
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"good Running"}, u.take())
		r.Set(pod("good"), v1.PodStatus{Phase: v1.PodSucceeded})
		time.Sleep(3 * time.Minute)
		assert.Equal(t, []string{"good Succeeded"}, u.take())
		u.set(func() { u.refused = "" })
		time.Sleep(3 * time.Minute)
		assert.Equal(t, []string{"bad Running"}, u.take())
	})
}

// A million pods during an outage need no more memory than MaxPods.
func TestBound(t *testing.T) {
	run(t, statusreport.Options{MaxPods: 2}, func(r *statusreport.Reports, u *uplink) {
		u.set(func() { u.down = true })
		r.Set(pod("first"), v1.PodStatus{})
		synctest.Wait()
		for i := range 100 {
			r.Set(pod(fmt.Sprint(i)), v1.PodStatus{Phase: v1.PodRunning})
		}
		assert.Equal(t, 99, r.Dropped())
		u.set(func() { u.down = false })
		time.Sleep(3 * time.Minute)
		assert.ElementsMatch(t, []string{"98 Running", "99 Running"}, u.take())
	})
}

func TestNew(t *testing.T) {
	send := func(context.Context, statusreport.Report) error { return nil }
	for field, o := range map[string]statusreport.Options{
		"Send": {}, "MaxPods": {Send: send, MaxPods: -1},
	} {
		_, err := statusreport.New(o)
		require.ErrorContains(t, err, "Options."+field)
	}
}
