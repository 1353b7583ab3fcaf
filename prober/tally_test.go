// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
)

const (
	none = VerdictNone
	yes  = VerdictSuccess
	warn = VerdictWarning
	no   = VerdictFailure
)

func TestTally(t *testing.T) {
	tests := []struct {
		name             string
		success, failure int32
		tolerate         int
		begin            Result
		verdicts         []Verdict
		want             []Result // the published result after each attempt
	}{
		{"one success is enough", 1, 3, 0, Failure, []Verdict{yes}, []Result{Success}},
		{"a warning is a success", 1, 3, 0, Failure, []Verdict{warn}, []Result{Success}},
		{"three failures", 1, 3, 0, Success, []Verdict{no, no, no}, []Result{Success, Success, Failure}},
		{"a success ends the run", 1, 2, 0, Success, []Verdict{no, yes, no, no}, []Result{Success, Success, Success, Failure}},
		{"runs of successes", 2, 1, 0, Failure, []Verdict{yes, no, yes, warn}, []Result{Failure, Failure, Failure, Success}},
		{"unknown until a verdict", 1, 2, 0, Unknown, []Verdict{no, none, no}, []Result{Unknown, Unknown, Failure}},
		{"an error does not end the run", 1, 2, 0, Success, []Verdict{no, none, no}, []Result{Success, Success, Failure}},
		{"errors never count", 1, 1, 0, Success, []Verdict{none, none, none}, []Result{Success, Success, Success}},
		{"unless so many in a row", 1, 2, 2, Success, []Verdict{none, none, none}, []Result{Success, Success, Failure}},
		{"a verdict ends a row of errors", 1, 1, 2, Success, []Verdict{none, yes, none, none}, []Result{Success, Success, Success, Failure}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tally := tally{published: tc.begin}
			for i, v := range tc.verdicts {
				before := tally.published
				j := tally.count(v, config{success: tc.success, failure: tc.failure}, tc.tolerate)
				assert.Equal(t, tc.want[i], tally.published, "after %d", i+1)
				assert.Equal(t, before != tally.published, j.published)
			}
		})
	}
}

// TestTallyAgainstHistory compares the counters with a look at everything that was ever said.
func TestTallyAgainstHistory(t *testing.T) {
	for seed := range casetest.Rounds[uint64](2000) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		c := config{success: 1 + rnd.Int32N(3), failure: 1 + rnd.Int32N(4)}
		tolerate, begin := rnd.IntN(4), Result(rnd.IntN(3))
		tally, history := tally{published: begin}, []Verdict{}
		for range 40 {
			v := Verdict(rnd.IntN(4))
			if len(history) > 0 && rnd.IntN(2) == 0 {
				v = history[len(history)-1]
			}
			history = append(history, v)
			j := tally.count(v, c, tolerate)
			require.Equal(t, established(begin, history, c, tolerate), tally.published, "seed %d: %v", seed, history)
			require.Equal(t, len(history) > 1 && history[len(history)-2] == v, j.repeated)
		}
	}
}

// established replays a history: first the result of every attempt, then the last run of sufficient length.
func established(begin Result, history []Verdict, c config, tolerate int) Result {
	var counted []Result
	errors := 0
	for _, v := range history {
		errors++
		switch {
		case v == yes || v == warn:
			counted, errors = append(counted, Success), 0
		case v == no:
			counted, errors = append(counted, Failure), 0
		case tolerate > 0 && errors >= tolerate:
			counted = append(counted, Failure)
		}
	}
	for end := len(counted); end > 0; end-- {
		need := int(c.success)
		if counted[end-1] == Failure {
			need = int(c.failure)
		}
		if end >= need && allSame(counted[end-need:end]) {
			return counted[end-1]
		}
	}
	return begin
}

func allSame(results []Result) bool {
	for _, r := range results {
		if r != results[0] {
			return false
		}
	}
	return true
}

func TestRunsDoNotOverflow(t *testing.T) {
	tally := tally{published: Success, last: Failure, run: math.MaxInt32, errors: math.MaxInt32}
	j := tally.count(no, config{success: 1, failure: math.MaxInt32}, 0)
	assert.Equal(t, int32(math.MaxInt32), j.run)
	assert.Equal(t, Failure, tally.published)
}

func TestFinal(t *testing.T) {
	for _, tc := range []struct {
		kind Type
		r    Result
		want bool
	}{
		{Startup, Unknown, false},
		{Startup, Success, true},
		{Startup, Failure, true},
		{Liveness, Success, false},
		{Liveness, Failure, true},
		{Readiness, Success, false},
		{Readiness, Failure, false},
	} {
		assert.Equal(t, tc.want, final(tc.kind, tc.r), "%s %s", tc.kind, tc.r)
	}
}

func TestInitial(t *testing.T) {
	adopted := Instance{Adopted: true, Started: true, Ready: true}
	for _, tc := range []struct {
		name  string
		kind  Type
		in    Instance
		gated bool
		want  Result
	}{
		{"fresh liveness", Liveness, Instance{}, false, Success},
		{"fresh readiness", Readiness, Instance{Ready: true}, false, Failure},
		{"fresh startup", Startup, Instance{Started: true}, false, Unknown},
		{"adopted liveness", Liveness, Instance{Adopted: true}, true, Success},
		{"adopted and ready", Readiness, adopted, false, Success},
		{"adopted, ready but not started", Readiness, adopted, true, Failure},
		{"adopted and not ready", Readiness, Instance{Adopted: true, Started: true}, false, Failure},
		{"adopted and started", Startup, adopted, false, Success},
		{"adopted while it started", Startup, Instance{Adopted: true, Ready: true}, false, Unknown},
	} {
		assert.Equal(t, tc.want, initial(tc.kind, tc.in, tc.gated), tc.name)
	}
}
