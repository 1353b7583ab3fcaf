// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/prober"
)

// play is the behaviour of one attempt.
type play struct {
	verdict prober.Verdict
	takes   time.Duration
}

// TestAgainstNaive lets a Prober and a plain loop over times probe one container with the same random answers, and
// compares the start times and results.
func TestAgainstNaive(t *testing.T) {
	for from := uint64(0); from < 1000; from += 250 {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for seed := from; seed < from+casetest.Rounds[uint64](250); seed++ {
					rnd := rand.New(rand.NewPCG(seed, 1))
					kind := []prober.Type{prober.Startup, prober.Readiness, prober.Liveness}[rnd.IntN(3)]
					probe := &v1.Probe{
						InitialDelaySeconds: rnd.Int32N(4), PeriodSeconds: 1 + rnd.Int32N(4), TimeoutSeconds: 1 + rnd.Int32N(3),
						SuccessThreshold: 1 + rnd.Int32N(2), FailureThreshold: 1 + rnd.Int32N(3),
					}
					ago := time.Duration(rnd.IntN(4000)) * time.Millisecond
					plays := make([]play, 25)
					for i := range plays {
						plays[i].verdict = prober.Verdict(1 + rnd.IntN(3))
						if rnd.IntN(2) == 0 {
							plays[i].takes = time.Duration(rnd.IntN(7)) * 503 * time.Millisecond
						}
					}
					want := naive(kind, probe, ago, plays)
					require.Equal(t, want, probeForReal(t, kind, probe, ago, plays), "seed %d: %s %v after %s", seed, kind, probe, ago)
				}
			})
		})
	}
}

// naive returns the same lines as probeForReal.
func naive(kind prober.Type, p *v1.Probe, ago time.Duration, plays []play) []string {
	unit := func(n int32) time.Duration { return time.Duration(n) * time.Second }
	var lines []string
	at := max(0, unit(p.InitialDelaySeconds)-ago)
	first, run, last, known := at, int32(0), "", map[prober.Type]string{prober.Readiness: "Failure", prober.Liveness: "Success"}[kind]
	for _, play := range plays {
		lines = append(lines, fmt.Sprintf("%s attempt", at))
		end, outcome, need := at+play.takes, "Success", p.SuccessThreshold
		if play.takes >= unit(p.TimeoutSeconds) {
			end, outcome = at+unit(p.TimeoutSeconds), "Failure"
		}
		if play.verdict == prober.VerdictFailure {
			outcome = "Failure"
		}
		if outcome == "Failure" {
			need = p.FailureThreshold
		}
		run++
		if outcome != last {
			run = 1
		}
		last = outcome
		if run >= need && outcome != known {
			known = outcome
			lines = append(lines, fmt.Sprintf("%s %s", end, known))
		}
		if kind == prober.Startup && known != "" || kind == prober.Liveness && known == "Failure" {
			return lines
		}
		next := first
		for next <= at {
			next += unit(p.PeriodSeconds)
		}
		at = max(next, end)
	}
	return lines
}

// probeForReal says when attempts began and when results changed, until there is nothing more to play.
func probeForReal(t *testing.T, kind prober.Type, probe *v1.Probe, ago time.Duration, plays []play) []string {
	began := time.Now()
	var lines []string
	note := func(what string) { lines = append(lines, fmt.Sprintf("%s %s", time.Since(began), what)) }
	curtain := make(chan struct{})
	h := prober.HandlerFunc(func(ctx context.Context, _ prober.Target) (prober.Outcome, error) {
		if len(plays) == 0 {
			close(curtain)
			<-ctx.Done()
			return prober.Outcome{}, ctx.Err()
		}
		now := plays[0]
		plays = slices.Delete(plays, 0, 1)
		note("attempt")
		select {
		case <-time.After(now.takes):
			return prober.Outcome{Verdict: now.verdict}, nil
		case <-ctx.Done():
			return prober.Outcome{}, ctx.Err()
		}
	})
	plays = slices.Clone(plays)
	p, err := prober.New(prober.Options{
		Handler: h, OnAttempt: func(a prober.Attempt) {
			if a.Published {
				note(a.Result.String())
			}
		},
	})
	require.NoError(t, err)
	stop := run(t, p)
	c := v1.Container{Name: "c"}
	setProbe(&c, kind, probe)
	p.Start(podOf("web", c), "c", prober.Instance{ID: "c1", StartedAt: began.Add(-ago)})
	select {
	case <-curtain:
	case <-time.After(time.Hour):
	}
	synctest.Wait()
	stop()
	return lines
}
