// SPDX-License-Identifier: Apache-2.0

// Package testport picks TCP ports for programs that a test starts and restarts.
package testport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
)

// first is the lowest port picked. IANA's dynamic ports, used by macOS, begin at 49152.
const first, dynamic = 10000, 49152

var (
	mu    sync.Mutex
	taken = map[int]bool{}
)

// Free returns a port of 127.0.0.1 without a listener. The port is outside the kernel's range for
// connections and for listeners on port 0, so the port stays free until the test starts its
// program. Later calls in the same process return other ports.
func Free(t testing.TB) int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	below := lowestDynamic()
	for range 1000 {
		port := first + rand.IntN(below-first)
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		taken[port] = true
		return port
	}
	t.Fatalf("no free port from %d to %d", first, below-1)
	return 0
}

// lowestDynamic returns the lowest port of the kernel's dynamic range.
func lowestDynamic() int {
	below := 0
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(text), &below)
	}
	if err != nil || below <= first {
		return dynamic
	}
	return below
}
