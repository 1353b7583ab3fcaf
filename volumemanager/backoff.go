// SPDX-License-Identifier: Apache-2.0

package volumemanager

import "time"

// backoff is the delay between retries of a failed operation: first, then doubled with each failure
// up to most.
type backoff struct{ first, most time.Duration }

// after returns the delay after the count-th failure in a row.
func (b backoff) after(count int) time.Duration {
	d := b.first
	for range count - 1 {
		d = min(2*d, b.most)
	}
	return d
}
