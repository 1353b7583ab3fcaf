// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

func concurrentCases() []testCase {
	return []testCase{
		{"ConcurrentPods", concurrentPods},
		{"ConcurrentContainersOfOnePod", concurrentContainersOfOnePod},
		{"ConcurrentStops", concurrentStops},
	}
}

// together runs fs concurrently and returns the joined errors.
func together(fs ...func() error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(fs))
	for i, f := range fs {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// runLife creates, starts, stops and removes a container. It does not call require, because only the
// goroutine of the case may end the case.
func (b *bench) runLife(ctx context.Context, sb runtime.SandboxID, spec runtime.ContainerSpec) error {
	id, err := b.rt.CreateContainer(ctx, sb, spec)
	if err != nil {
		return fmt.Errorf("create %s: %w", spec.Name, err)
	}
	if err := b.rt.StartContainer(ctx, id); err != nil {
		return fmt.Errorf("start %s: %w", spec.Name, err)
	}
	if err := b.rt.StopContainer(ctx, id, 0); err != nil {
		return fmt.Errorf("stop %s: %w", spec.Name, err)
	}
	st, err := b.rt.PodStatus(ctx, spec.Pod.UID)
	if err != nil {
		return fmt.Errorf("status of %s: %w", spec.Name, err)
	}
	for _, c := range st.Containers {
		if c.ID == id && c.State != runtime.StateExited {
			return fmt.Errorf("%s is %s after its stop: %s", spec.Name, c.State, ruleStop)
		}
	}
	if err := b.rt.RemoveContainer(ctx, id); err != nil {
		return fmt.Errorf("remove %s: %w", spec.Name, err)
	}
	return nil
}

// listContinuously calls List again and again until end is called. end returns the first error of List.
func (b *bench) listContinuously() (end func() error) {
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		for ctx.Err() == nil && err == nil {
			_, err = b.rt.List(ctx, runtime.ListOptions{})
			time.Sleep(b.h.Unit / 20)
		}
	})
	return func() error {
		cancel()
		wg.Wait()
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
}

func concurrentPods(b *bench) {
	ctx := b.Context()
	end := b.listContinuously()
	var fs []func() error
	for range 6 {
		p := b.pod("main")
		spec := b.spec(p, "main", 0, Behaviour{})
		fs = append(fs, func() error {
			sb, err := b.rt.RunSandbox(ctx, p.sandboxSpec(0))
			if err != nil {
				return fmt.Errorf("sandbox: %w", err)
			}
			if err := b.runLife(ctx, sb, spec); err != nil {
				return err
			}
			return errors.Join(b.rt.StopSandbox(ctx, sb), b.rt.RemoveSandbox(ctx, sb))
		})
	}
	failed, listFailed := together(fs...), end()
	require.NoError(b, failed, ruleConcurrent)
	require.NoError(b, listFailed, "%s: a List meanwhile failed", ruleConcurrent)
	require.Empty(b, b.list(runtime.ListOptions{}), ruleList)
}

func concurrentContainersOfOnePod(b *bench) {
	names := []string{"a", "b", "c", "d", "e"}
	p := b.pod(append(names, "stays")...)
	sb := b.sandbox(p, 0)
	stays := b.run(p, sb, "stays", 0, Behaviour{})
	end := b.listContinuously()
	var fs []func() error
	for _, name := range names {
		spec := b.spec(p, name, 0, Behaviour{})
		fs = append(fs, func() error { return b.runLife(b.Context(), sb, spec) })
	}
	failed, listFailed := together(fs...), end()
	require.NoError(b, failed, ruleConcurrent)
	require.NoError(b, listFailed, "%s: a List meanwhile failed", ruleConcurrent)
	b.mustState(p, stays, runtime.StateRunning, ruleConcurrent)
	require.Len(b, b.status(p).Containers, 1, ruleConcurrent)
}

// concurrentStops stops and removes a container in concurrent calls.
func concurrentStops(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	id := b.run(p, sb, "main", 0, Behaviour{TermAfter: b.h.Unit, TermCode: 7})
	ctx := b.Context()
	stop := func() error {
		if err := b.rt.StopContainer(ctx, id, longGrace); !gone(err) {
			return fmt.Errorf("stop: %w", err)
		}
		return nil
	}
	require.NoError(b, together(stop, stop, stop), ruleConcurrent)
	require.EqualValues(b, 7, b.mustState(p, id, runtime.StateExited, ruleStop).ExitCode, "%s: asked by three, killed by none", ruleGrace)
	remove := func() error {
		if err := b.rt.RemoveContainer(ctx, id); !gone(err) {
			return fmt.Errorf("remove: %w", err)
		}
		return nil
	}
	require.NoError(b, together(remove, remove, stop), ruleIdempotent)
	require.Nil(b, b.container(p, id), ruleRemove)
}
