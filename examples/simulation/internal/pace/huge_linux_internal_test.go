// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// advised returns the size of the mappings for which huge pages are advised, in KiB.
func advised(t *testing.T) (size int) {
	file, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer file.Close()
	last := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case words[0] == "Size:":
			last, err = strconv.Atoi(words[1])
			require.NoError(t, err)
		case words[0] == "VmFlags:" && strings.Contains(lines.Text(), " hg"):
			size += last
		}
	}
	return size
}

// TestHugePages: a part of the heap gets huge pages, and is free afterwards.
func TestHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil {
		t.Skip("the kernel has no huge pages: ", err)
	}
	before := advised(t)
	adviseHugePages(64 << 20)
	assert.GreaterOrEqual(t, advised(t)-before, 48<<10)
}
