// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// requestsAtOnce is the number of requests in progress, watches aside. client-go keeps up to 25 idle connections.
const requestsAtOnce = 20

// spare lets the clients of config use HTTP/1.1, which needs less processor time for each request than HTTP/2,
// and bounds the requests in progress, because each has a connection of its own.
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
	return l.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (l *limited) WrappedRoundTripper() http.RoundTripper { return l.RoundTripper }
