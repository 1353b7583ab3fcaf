// SPDX-License-Identifier: Apache-2.0

package record

import "errors"

// ErrLocked says that somebody else holds a container's lock: its shim, a start
// under way, or for an instant somebody who concludes what became of it.
var ErrLocked = errors.New("locked")
