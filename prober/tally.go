// SPDX-License-Identifier: Apache-2.0

package prober

// tally counts what the attempts of one probe of one instance said. It belongs to the instance, so a run of failures
// ends with its container.
type tally struct {
	published Result  // what the probe has established
	last      Result  // of the run; Unknown before the first verdict
	verdict   Verdict // of the last attempt, whatever it was
	attempted bool    // verdict means something
	run       int32   // how many attempts in a row said last; errors do not end a run
	errors    int32   // how many attempts in a row had no verdict
	errored   uint32  // how many had none, ever
}

// judgement is what one attempt did to a tally.
type judgement struct {
	counted   Result // what the attempt counts as; Unknown: as nothing
	run       int32  // attempts in a row that counted so, up to this one
	threshold int32  // how many it takes to publish
	published bool   // the published result is another one than before
	repeated  bool   // the attempt before had the same verdict
}

// count adds one attempt. tolerated is how many errors in a row count as nothing; 0: all of them do.
func (t *tally) count(v Verdict, c config, tolerate int) judgement {
	j := judgement{repeated: t.attempted && t.verdict == v}
	t.verdict, t.attempted = v, true
	switch v {
	case VerdictSuccess, VerdictWarning:
		j.counted, j.threshold = Success, c.success
	case VerdictFailure:
		j.counted, j.threshold = Failure, c.failure
	}
	if v == VerdictNone {
		t.errors = increased(t.errors)
		t.errored++
		if tolerate == 0 || int(t.errors) < tolerate {
			return j
		}
		j.counted, j.threshold = Failure, c.failure
	} else {
		t.errors = 0
	}
	if j.counted != t.last {
		t.last, t.run = j.counted, 0
	}
	t.run = increased(t.run)
	j.run = t.run
	if t.run >= j.threshold && t.published != j.counted {
		t.published, j.published = j.counted, true
	}
	return j
}

// increased adds one, up to where an int32 ends.
func increased(n int32) int32 { return max(n, n+1) }

// final reports whether a probe of that kind is over once r is established: a startup probe has then done what it is
// for, and an instance that is not alive will be killed.
func final(kind Type, r Result) bool {
	switch kind {
	case Startup:
		return r != Unknown
	case Liveness:
		return r == Failure
	}
	return false
}

// initial is what holds of an instance before its first attempt.
func initial(kind Type, in Instance, gated bool) Result {
	switch {
	case kind == Liveness:
		return Success
	case kind == Startup && in.Adopted && in.Started:
		return Success
	case kind == Startup:
		return Unknown
	case in.Adopted && in.Ready && !gated:
		return Success
	}
	return Failure
}
