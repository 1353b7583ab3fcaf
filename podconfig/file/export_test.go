// SPDX-License-Identifier: Apache-2.0

package file

import "context"

// HinterFunc is a func that implements Hinter.
type HinterFunc func(ctx context.Context, path string) (<-chan struct{}, error)

// Hints calls f.
func (f HinterFunc) Hints(ctx context.Context, path string) (<-chan struct{}, error) {
	return f(ctx, path)
}
