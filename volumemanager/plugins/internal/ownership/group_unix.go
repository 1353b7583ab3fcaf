// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"io/fs"
	"syscall"
)

func groupOf(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Gid)
	}
	return -1
}
