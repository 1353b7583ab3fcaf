// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// socket is the client side of a WebSocket connection (RFC 6455), reduced to the needs of runtimes'
// streaming servers: short, binary, unfragmented messages.
type socket struct {
	testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// connect upgrades a connection to u with Kubernetes' channel protocol: the first byte of a message
// is the channel's number.
func connect(t testing.TB, u *url.URL) *socket {
	t.Helper()
	conn, err := net.DialTimeout("tcp", u.Host, 10*time.Second)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	var key [16]byte
	_, _ = rand.Read(key[:]) // never fails
	q := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{
		"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {"13"}, "Origin": {"http://localhost"},
		"Sec-Websocket-Key": {base64.StdEncoding.EncodeToString(key[:])}, "Sec-Websocket-Protocol": {"v4.channel.k8s.io"},
	}}
	require.NoError(t, q.Write(conn))
	in := bufio.NewReader(conn)
	a, err := http.ReadResponse(in, q)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, a.StatusCode)
	return &socket{TB: t, conn: conn, in: in}
}

// send writes a message.
func (s *socket) send(channel byte, text string) {
	s.Helper()
	const binaryMessage, last, masked = 2, 0x80, 0x80
	require.Less(s, len(text), 125, "short messages only")
	message := []byte{last | binaryMessage, masked | byte(len(text)+1), 0, 0, 0, 0, channel} // a mask of zeros
	_, err := s.conn.Write(append(message, text...))
	require.NoError(s, err)
}

// next reads a message; io.EOF at the end of the connection.
func (s *socket) next() (channel byte, text string, err error) {
	for {
		var head [2]byte
		if _, err := io.ReadFull(s.in, head[:]); err != nil {
			return 0, "", io.EOF
		}
		length := int64(head[1] & 0x7f)
		switch length {
		case 126:
			var n uint16
			err = binary.Read(s.in, binary.BigEndian, &n)
			length = int64(n)
		case 127:
			err = fmt.Errorf("a message of more than 64 KiB")
		}
		if err != nil {
			return 0, "", err
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(s.in, body); err != nil {
			return 0, "", err
		}
		switch opcode := head[0] & 0x0f; {
		case opcode == 8:
			return 0, "", io.EOF
		case (opcode == 1 || opcode == 2) && length > 1: // a stream begins with an empty message on its channel
			return body[0], string(body[1:]), nil
		}
	}
}

// until reads messages until done returns true for the received data by channel.
func (s *socket) until(done func(got map[byte]string) bool) map[byte]string {
	s.Helper()
	got := map[byte]string{}
	for !done(got) {
		channel, text, err := s.next()
		require.NoError(s, err, "got so far: %q", got)
		got[channel] += text
	}
	return got
}

// all reads messages until the end.
func (s *socket) all() map[byte]string {
	s.Helper()
	got := map[byte]string{}
	for {
		channel, text, err := s.next()
		if err == io.EOF {
			return got
		}
		require.NoError(s, err)
		got[channel] += text
	}
}
