// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
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
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(" ")) // few lines become strings: at a rest, memory is scarce
		switch {
		case !bytes.HasSuffix(name, []byte(":")):
			end = 0
			from, to, _ := strings.Cut(string(name), "-")
			if fields := strings.Fields(string(value)); len(fields) == 5 && fields[4] == path && !strings.Contains(fields[0], "w") {
				begin, _ = strconv.ParseUint(from, 16, 64)
				end, _ = strconv.ParseUint(to, 16, 64)
			}
		case end > 0 && string(name) == "Anonymous:" && string(bytes.TrimSpace(value)) == "0 kB":
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(end-begin), advice)
		}
	}
}
