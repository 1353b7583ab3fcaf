// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"errors"
	"sync"
)

// together returns a function that runs all functions concurrently and joins their errors.
func together(runs ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var wg sync.WaitGroup
		errs := make([]error, len(runs))
		for i, run := range runs {
			wg.Go(func() { errs[i] = run(ctx) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}
