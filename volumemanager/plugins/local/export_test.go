// SPDX-License-Identifier: Apache-2.0

package local

import "context"

// SetRun replaces the runner of programs.
func (p *Plugin) SetRun(run func(ctx context.Context, name string, args ...string) ([]byte, error)) {
	p.run = run
}
