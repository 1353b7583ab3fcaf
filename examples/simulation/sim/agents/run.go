// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Run runs a simulation with agents to its end, and returns the report, as sim.Sim.Run does. The run
// has a bubble of virtual time and a temporary folder of its own, so that a program can call Run. In
// a bubble Run panics. o.Backend is replaced.
func Run(ctx context.Context, o sim.Options) (report *sim.Report, err error) {
	root, err := os.MkdirTemp("", "agents")
	if err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	synctest.Test(new(testing.T), func(*testing.T) {
		backend, stop := New(Options{Nodes: o.Nodes, Root: root, Seed: o.Seed})
		o.Backend = backend
		s, failed := sim.New(o)
		if failed == nil {
			report, failed = s.Run(ctx)
		}
		err = errors.Join(failed, stop())
	})
	return report, err
}
