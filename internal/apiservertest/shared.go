// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is one server for all tests of a package, started by the first Get:
//
//	var apiserver apiservertest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(apiserver.Main(m)) }
//
//	func TestPods(t *testing.T) {
//		server := apiserver.Get(t)
//
// The zero value is ready. Tests that share a server use different namespaces and nodes. Tests that
// kill or compact the server must not run in parallel with other tests.
type Shared struct {
	// Options are for the start.
	Options Options

	once   sync.Once
	server *Server
	err    error
}

// Main runs the tests, stops the server if started, and returns the exit code.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	if s.server == nil {
		return code
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, s.server.LogTail())
	}
	if err := s.server.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stop the API server: %v\n", err)
		return max(code, 1)
	}
	return code
}

// Get returns the server. Get skips or fails t under the same conditions as [Start].
func (s *Shared) Get(t testing.TB) *Server {
	t.Helper()
	s.once.Do(func() { s.server, s.err = New(context.Background(), s.Options) })
	failOrSkip(t, s.err)
	return s.server
}
