// SPDX-License-Identifier: Apache-2.0

package pace

import (
	goruntime "runtime"
	"syscall"
)

// adviseHugePages lets the kernel give the first part of the heap, in bytes, huge pages. The agents of many
// nodes use more small pages than a processor caches translations. The part is only reserved, and is free
// for other objects afterwards. A kernel without huge pages ignores the call.
func adviseHugePages(size int) {
	b := make([]byte, size)
	_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
	goruntime.KeepAlive(b)
}
