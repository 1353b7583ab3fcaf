// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// verdict is what the end of a request means for the next one.
type verdict uint8

const (
	// verdictDone: it was carried out.
	verdictDone verdict = iota
	// verdictGone: the server does not have the pod.
	verdictGone
	// verdictConflict: the server has another pod of that name, or somebody was faster.
	verdictConflict
	// verdictBusy: not carried out; the server said when to come again.
	verdictBusy
	// verdictRejected: the server will not do this, now or later.
	verdictRejected
	// verdictFailed: the server failed at it. It may have been carried out.
	verdictFailed
	// verdictSilent: no answer, or that of somebody in between. It may have been carried out.
	verdictSilent
)

// judge says what an error of a Patcher means, and how long the server asked to be left alone.
func judge(err error) (v verdict, retryAfter time.Duration) {
	if err == nil {
		return verdictDone, 0
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		retryAfter = time.Duration(seconds) * time.Second
	}
	var api apierrors.APIStatus // no error type, so errors.AsType does not do
	if !errors.As(err, &api) {
		return verdictSilent, retryAfter
	}
	switch code := api.Status().Code; {
	case code == http.StatusNotFound, code == http.StatusGone:
		return verdictGone, 0
	case code == http.StatusConflict, code == http.StatusUnprocessableEntity && isAnother(api.Status().Details):
		return verdictConflict, retryAfter
	case code == http.StatusTooManyRequests, code == http.StatusUnauthorized: // a new token may be on its way
		return verdictBusy, retryAfter
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout:
		return verdictRejected, retryAfter
	case code == http.StatusInternalServerError:
		return verdictFailed, retryAfter
	}
	return verdictSilent, retryAfter
}

// isAnother reports whether what the server found invalid is the UID: so it says (1.36) that it has another pod of that
// name, where a deletion would be a conflict.
func isAnother(details *metav1.StatusDetails) bool {
	return details != nil && slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// backoff says how long to wait after failures.
type backoff struct {
	initial, limit time.Duration
	jitter         func(time.Duration) time.Duration
}

// after returns the delay after the n-th failure in a row, doubling from initial up to limit, before jitter.
func (b backoff) after(n int) time.Duration {
	d := b.initial
	for range n - 1 {
		if d >= b.limit/2 {
			return b.limit
		}
		d *= 2
	}
	return min(d, b.limit)
}

// delay is when to try again: jittered, but not before the server wants it.
func (b backoff) delay(n int, retryAfter time.Duration) time.Duration {
	d := max(b.jitter(b.after(n)), 0)
	if retryAfter > 0 { // spread what would otherwise come back all at once
		d = max(d, retryAfter+max(b.jitter(retryAfter/4)-retryAfter/4, 0))
	}
	return d
}

// An outage has begun once so many requests in a row, not all for one pod, were left without answer.
const outageFailures = 5

// While there is an outage, the server is asked by one request at a time, after pauses that double between these.
const (
	outageInitialPause = 250 * time.Millisecond
	outageLongestPause = 5 * time.Second
)

// outage tells the silence of the server from the trouble of a single pod. It is pure: now is handed in.
type outage struct {
	failures int // in a row
	first    types.UID
	several  bool // pods
	pauses   int
	resumeAt time.Time
}

// on reports whether the server is thought to be down.
func (o *outage) on() bool { return o.several && o.failures >= outageFailures }

// failed takes in that a request for a pod got no answer.
func (o *outage) failed(uid types.UID, now time.Time, jitter func(time.Duration) time.Duration) {
	if o.failures == 0 {
		o.first = uid
	}
	o.several = o.several || uid != o.first
	o.failures++
	if !o.on() || now.Before(o.resumeAt) { // what was under way when it began says nothing new
		return
	}
	o.pauses++
	pause := backoff{initial: outageInitialPause, limit: outageLongestPause}.after(o.pauses)
	o.resumeAt = now.Add(max(jitter(pause), 0))
}

// answered takes in that the server answered, and reports whether that ends an outage.
func (o *outage) answered() bool {
	over := o.on()
	*o = outage{}
	return over
}

// admits reports whether another request may be made beside inFlight others.
func (o *outage) admits(inFlight int, now time.Time) bool {
	return !o.on() || inFlight == 0 && !now.Before(o.resumeAt)
}
