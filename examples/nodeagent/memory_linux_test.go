// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestReleaseProgram loads the pages of this program's file, and releases them.
func TestReleaseProgram(t *testing.T) {
	adviseProgram(unix.MADV_POPULATE_READ)
	loaded := residentFilePages(t)
	info, err := os.Stat("/proc/self/exe")
	require.NoError(t, err)
	if int64(loaded)<<10 < info.Size()/4 {
		t.Skip("this kernel has no MADV_POPULATE_READ, which needs Linux 5.14")
	}
	releaseProgram()
	assert.Less(t, residentFilePages(t), loaded/2)
}

// residentFilePages returns the memory of this process that holds pages of files, in KiB.
func residentFilePages(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, found := bytes.Cut(text, []byte("RssFile:"))
	require.True(t, found)
	kib, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	require.NoError(t, err)
	return kib
}
