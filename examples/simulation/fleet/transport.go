// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/retry"
)

// requestsAtOnce is the number of requests in progress, watches aside. client-go keeps up to 25 idle connections.
const requestsAtOnce = 20

const (
	// gather is the time in which changes of a watch gather, after a change that arrived alone.
	gather = 50 * time.Millisecond
	// alone is the least wait for a change that arrived alone.
	alone = time.Millisecond
)

// spare lets the clients of config use HTTP/1.1, which needs less processor time for each request than HTTP/2,
// and bounds the requests in progress, because each has a connection of its own. Changes of a watch are read in groups,
// because a process that wakes for each change needs a third of its processor time for wake-ups.
func spare(config *rest.Config) {
	config.NextProtos = []string{"http/1.1"}
	slots := make(chan struct{}, requestsAtOnce)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &limited{next, slots} })
}

// limited is a RoundTripper whose requests wait for a slot.
type limited struct {
	http.RoundTripper
	slots chan struct{}
}

// RoundTrip implements http.RoundTripper. A request has its slot until the headers of the answer have arrived.
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil && strings.Contains(r.URL.RawQuery, "watch=true") {
		answer.Body = &gathered{ReadCloser: answer.Body, ctx: r.Context()}
	}
	return answer, err
}

// gathered is the body of a watch.
type gathered struct {
	io.ReadCloser
	ctx    context.Context
	waited bool // the last Read waited for a change
}

// Read implements io.Reader.
func (g *gathered) Read(p []byte) (int, error) {
	if g.waited {
		_ = retry.Sleep(g.ctx, gather) // Read then returns the error of the request
	}
	began := time.Now()
	n, err := g.ReadCloser.Read(p)
	g.waited = time.Since(began) >= alone
	return n, err
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (l *limited) WrappedRoundTripper() http.RoundTripper { return l.RoundTripper }
