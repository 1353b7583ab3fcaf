// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"bufio"
	"errors"
	"maps"
	"net"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"
	tunnels "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// tunnel returns a writer and a request for a handler of SPDY. The client sends and receives the
// bytes of SPDY in messages of a WebSocket. The handler's answer 101 accepts the WebSocket. All
// other answers reach the client as they are.
func tunnel(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	asked := r.Clone(r.Context())
	asked.Method = http.MethodPost
	asked.Header = http.Header{httpstream.HeaderConnection: {httpstream.HeaderUpgrade}, httpstream.HeaderUpgrade: {spdy.HeaderSpdy31}}
	for _, protocol := range websocket.Subprotocols(r) {
		if protocol, ok := strings.CutPrefix(protocol, tunnels.WebsocketsSPDYTunnelingPrefix); ok {
			asked.Header.Add(httpstream.HeaderProtocolVersion, protocol)
		}
	}
	return &tunnelWriter{ResponseWriter: w, request: r, header: http.Header{}}, asked
}

// tunnelWriter receives the answer of a handler of SPDY.
type tunnelWriter struct {
	http.ResponseWriter
	request *http.Request // of the WebSocket
	header  http.Header
	conn    *websocket.Conn // after the answer 101
}

// Header implements http.ResponseWriter.
func (t *tunnelWriter) Header() http.Header { return t.header }

// WriteHeader implements http.ResponseWriter.
func (t *tunnelWriter) WriteHeader(code int) {
	if code != http.StatusSwitchingProtocols {
		maps.Copy(t.ResponseWriter.Header(), t.header)
		t.ResponseWriter.WriteHeader(code)
		return
	}
	upgrader := websocket.Upgrader{
		Subprotocols: []string{tunnels.WebsocketsSPDYTunnelingPrefix + t.header.Get(httpstream.HeaderProtocolVersion)},
		CheckOrigin:  func(*http.Request) bool { return true }, // a page of another origin has no credentials
	}
	t.conn, _ = upgrader.Upgrade(t.ResponseWriter, t.request, nil) // after an error, the client has been told
}

// Hijack implements http.Hijacker.
func (t *tunnelWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if t.conn == nil {
		return nil, nil, errors.New("the WebSocket was refused")
	}
	conn := portforward.NewTunnelingConnectionWithLogger(logr.FromContextOrDiscard(t.request.Context()), t.conn)
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), nil
}
