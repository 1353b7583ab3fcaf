// SPDX-License-Identifier: Apache-2.0

package volumemanager

import "time"

// backoff is how long a failed operation is held: first, doubled with each
// failure, at most most.
type backoff struct{ first, most time.Duration }

// after returns the time to wait after the count-th failure in a row.
func (b backoff) after(count int) time.Duration {
	d := b.first
	for range count - 1 {
		if d >= b.most/2 {
			return b.most
		}
		d *= 2
	}
	return min(d, b.most)
}
