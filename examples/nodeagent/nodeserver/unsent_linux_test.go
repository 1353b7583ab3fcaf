// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

// For a client that reads nothing the kernel holds a bounded part of the answer. Without the bound it
// takes 4 MiB, and some hundred such clients use up the memory for TCP of the whole machine.
func TestTheKernelHoldsLittleForClientsThatNeverRead(t *testing.T) {
	taken := make(chan int, 1)
	s := newServer(t, nodeserver.Handle("/flood", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2*time.Second)))
		total, buf := 0, make([]byte, 16<<10)
		for {
			n, err := w.Write(buf)
			total += n
			if err != nil {
				taken <- total
				return
			}
		}
	})))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(t.Context(), listener) // ends by Close
	t.Cleanup(s.Close)
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = fmt.Fprint(conn, "GET /flood HTTP/1.1\r\nHost: n\r\n\r\n")
	require.NoError(t, err)
	assert.Less(t, <-taken, 1<<20)
}
