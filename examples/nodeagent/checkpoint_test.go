// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A checkpoint is a file that only root can read. A container runtime that makes none says so in the
// answer, in the words that upstream's tests know, and leaves no file.
func TestCheckpointOnContainerd(t *testing.T) {
	s := newServed(t, backends["containerd"])
	s.bind("web", forever)
	s.told("web", "runs", running)
	code, body := s.request(http.MethodPost, "/checkpoint/default/web/main?timeout=30")
	files, _ := filepath.Glob(filepath.Join(s.root, "checkpoints", "*"))
	if code == http.StatusOK { // containerd 2 with criu
		require.Len(t, files, 1)
		require.Contains(t, body, files[0])
		info, err := os.Stat(filepath.Dir(files[0]))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	} else {
		require.Equal(t, http.StatusInternalServerError, code)
		require.True(t, strings.HasPrefix(body, "checkpointing of default/web/main failed (rpc error: code = "), body)
		require.Empty(t, files)
	}
	code, _ = s.request(http.MethodPost, "/checkpoint/default/web/other")
	require.Equal(t, http.StatusNotFound, code)
}
