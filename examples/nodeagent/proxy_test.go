// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/criproxy"
)

// proxy stands between an agent and a container runtime for a test.
type proxy struct{ *criproxy.Proxy }

type hold = criproxy.Hold

// newProxy returns a proxy that listens on its own socket until the test ends.
func newProxy(t *testing.T, runtimeSocket string) *proxy {
	t.Helper()
	p, err := criproxy.New(filepath.Join(t.TempDir(), "cri.sock"), runtimeSocket)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return &proxy{p}
}

// since counts the calls that began at the given time or later.
func (p *proxy) since(at time.Time) (n int, byMethod map[string]int) {
	byMethod = make(map[string]int)
	for _, c := range p.Since(at) {
		n++
		byMethod[c.Method]++
	}
	return n, byMethod
}

// waitCaught waits until the hold has caught a call.
func waitCaught(s *station, h *hold) {
	s.Helper()
	select {
	case <-h.Caught():
	case <-time.After(patience):
		s.Fatalf("not within %s: a %s to be held", patience, h.Method())
	}
}
