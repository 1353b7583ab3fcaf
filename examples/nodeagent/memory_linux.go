// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram removes the pages of the program's file from the memory of this process. Most of them are
// needed at the start only. The kernel keeps the pages in its cache and maps a page again at its next use.
func releaseProgram() { adviseProgram(unix.MADV_DONTNEED) }

// adviseProgram gives the kernel advice about each mapping of the program's file whose pages equal the
// file's.
func adviseProgram(advice uintptr) {
	path, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var begin, end uint64 // of the mapping; end is 0 for a mapping of another kind
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		from, to, isRange := strings.Cut(fields[0], "-")
		switch {
		case isRange:
			end = 0
			if len(fields) == 6 && fields[5] == path && !strings.Contains(fields[1], "w") {
				begin, _ = strconv.ParseUint(from, 16, 64)
				end, _ = strconv.ParseUint(to, 16, 64)
			}
		case end > 0 && fields[0] == "Anonymous:" && fields[1] == "0":
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(end-begin), advice)
		}
	}
}
