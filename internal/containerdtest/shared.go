// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is one instance for all tests of a package, started by the first Get:
//
//	var containerd containerdtest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(containerd.Main(m)) }
//
//	func TestPods(t *testing.T) {
//		instance := containerd.Get(t)
//
// The zero value is ready. Tests that share an instance use different namespaces or UIDs for their
// pods, and remove their pods.
type Shared struct {
	// Options are for the start.
	Options Options

	once     sync.Once
	instance *Instance
	err      error
}

// Main runs the tests, stops the instance if started, and returns the exit code.
func (s *Shared) Main(m *testing.M) int { return s.After(m.Run()) }

// After stops the instance if started, after tests that ended with code, and returns the exit code. A
// package with several instances calls After for all but the first.
func (s *Shared) After(code int) int {
	if s.instance == nil {
		return code
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "the end of containerd's log:\n%s\n", s.instance.LogTail())
	}
	if err := s.instance.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stop containerd: %v\n", err)
		return max(code, 1)
	}
	return code
}

// Get returns the instance. Get skips or fails t under the same conditions as [Start].
func (s *Shared) Get(t testing.TB) *Instance {
	t.Helper()
	s.once.Do(func() { s.instance, s.err = New(context.Background(), s.Options) })
	failOrSkip(t, s.err)
	return s.instance
}
