// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// verdictFailed: no answer, or one that says nothing about the pod. It may have been carried out.
	verdictFailed
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
		return verdictFailed, retryAfter
	}
	switch code := api.Status().Code; {
	case code == http.StatusNotFound, code == http.StatusGone:
		return verdictGone, 0
	case code == http.StatusConflict:
		return verdictConflict, retryAfter
	case code == http.StatusTooManyRequests, code == http.StatusUnauthorized: // a new token may be on its way
		return verdictBusy, retryAfter
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout:
		return verdictRejected, retryAfter
	}
	return verdictFailed, retryAfter
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

// Outage has begun once so many requests in a row have failed.
const outageFailures = 5

// While there is an outage, the server is asked by one request at a time, after pauses that double between these.
const (
	outageInitialPause = 250 * time.Millisecond
	outageLongestPause = 5 * time.Second
)

// outage tells the failure of the server from that of single pods. It is pure: now is handed in.
type outage struct {
	failures int // in a row
	resumeAt time.Time
}

// on reports whether the server is thought to be down.
func (o *outage) on() bool { return o.failures >= outageFailures }

// failed takes in that a request got no answer.
func (o *outage) failed(now time.Time, jitter func(time.Duration) time.Duration) {
	o.failures++
	if !o.on() {
		return
	}
	pause := backoff{initial: outageInitialPause, limit: outageLongestPause}.after(o.failures - outageFailures + 1)
	o.resumeAt = now.Add(max(jitter(pause), 0))
}

// answered takes in that the server answered, and reports whether that ends an outage.
func (o *outage) answered() bool {
	over := o.on()
	o.failures = 0
	return over
}

// admits reports whether another request may be made beside inFlight others.
func (o *outage) admits(inFlight int, now time.Time) bool {
	return !o.on() || inFlight == 0 && !now.Before(o.resumeAt)
}
