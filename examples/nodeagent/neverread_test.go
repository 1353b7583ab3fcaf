// SPDX-License-Identifier: Apache-2.0

//go:build linux && !noapiserver

package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// asks sends a request and reads nothing of the answer.
func (d direct) asks(path, headers string) *tls.Conn {
	d.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(d.base, "https://"), d.client.Transport.(*http.Transport).TLSClientConfig)
	require.NoError(d, err)
	d.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: n\r\n%s\r\n", path, headers)
	require.NoError(d, err)
	return conn
}

// unread returns the number of connections of the server's port with bytes that the client has not
// taken, and the largest number of such bytes.
func (d direct) unread() (connections int, most int64) {
	d.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(d.base, "https://"))
	require.NoError(d, err)
	n, err := strconv.Atoi(port)
	require.NoError(d, err)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // a machine may have no IPv6
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line) // number, local address, remote address, state, queues
			if !strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", n)) || fields[3] != "01" {
				continue
			}
			queue, err := strconv.ParseInt(strings.Split(fields[4], ":")[0], 16, 64)
			require.NoError(d, err)
			most = max(most, queue)
			if queue > 0 {
				connections++
			}
		}
	}
	return connections, most
}

// Clients that never read take little memory, of the agent and of the kernel, and do not keep other
// clients from being served. Nothing is left of them. With KEELSON_SOAK they are 1,000 followers of a
// log and 200 commands.
func TestClientsThatNeverRead(t *testing.T) {
	followers, commands := 50, 10
	if os.Getenv("KEELSON_SOAK") != "" {
		followers, commands = 1000, 200
	}
	d := newDirect(t)
	manifest, _ := d.service("loud", "yes "+strings.Repeat("x", 200)+" | head -c 6000000; echo; echo done; "+forever)
	d.write("loud.yaml", manifest)
	d.waitPhase("loud-n", v1.PodRunning)
	d.eventually("the log is written", func() bool {
		response, err := d.client.Get(d.base + "/containerLogs/default/loud-n/main?tailLines=1")
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && string(text) == "done\n"
	})
	d.report("idle")
	before, began, clients := d.goroutines(), time.Now(), []*tls.Conn{}
	for range followers {
		clients = append(clients, d.asks("/containerLogs/default/loud-n/main?follow=true", ""))
	}
	for range commands {
		clients = append(clients, d.asks("/exec/default/web-n/main?output=1&command=yes", "Connection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n"))
	}
	d.eventually("all are being served", func() bool {
		connections, _ := d.unread()
		return connections == followers+commands
	})
	t.Logf("%d clients are served after %v", len(clients), time.Since(began))

	log, err := d.follow(t.Context())
	require.NoError(t, err, "another client reads its log")
	defer log.Close()
	var out bytes.Buffer
	require.NoError(t, d.exec(t.Context(), strings.NewReader("x"), &out, "cat"), "another client runs its command")
	require.Equal(t, "x", out.String())
	d.report("with other clients")
	_, most := d.unread()
	t.Logf("the kernel holds up to %d KiB of a connection", most>>10)
	require.Less(t, most, int64(1<<20))

	log.Close()
	for i, client := range clients {
		if i%2 == 0 {
			client.Close()
			continue
		}
		require.NoError(t, client.NetConn().(*net.TCPConn).CloseWrite()) // and wait
	}
	d.eventually("no goroutine is left", func() bool {
		d.client.CloseIdleConnections()
		return d.goroutines() <= before
	})
	d.report("after they have left")
}
