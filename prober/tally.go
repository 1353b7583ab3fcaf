// SPDX-License-Identifier: Apache-2.0

package prober

// tally counts the verdicts of one probe of one instance. A run of failures ends with the instance.
type tally struct {
	published Result  // the established result
	last      Result  // of the run; Unknown before the first verdict
	verdict   Verdict // of the last attempt
	attempted bool    // verdict means something
	run       int32   // how many attempts in a row said last; errors do not end a run
	errors    int32   // how many attempts in a row had no verdict
	errored   uint32  // total number of attempts without a verdict
}

// judgement is the effect of one attempt on a tally.
type judgement struct {
	counted   Result // the result of the attempt; Unknown: no effect
	run       int32  // consecutive attempts with the same result, including the current attempt
	threshold int32  // the number of attempts required to publish
	published bool   // the published result changed
	repeated  bool   // the attempt before had the same verdict
}

// count adds one attempt. From the tolerate-th consecutive error on, errors count as
// failures; with 0 errors never count.
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

// increased returns n+1, or n at the int32 maximum.
func increased(n int32) int32 { return max(n, n+1) }

// final reports whether result r ends a probe of the given kind. A startup probe ends with any
// result, and a failed liveness probe ends because the instance will be killed.
func final(kind Type, r Result) bool {
	switch kind {
	case Startup:
		return r != Unknown
	case Liveness:
		return r == Failure
	}
	return false
}

// initial returns the result of an instance before its first attempt.
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
