// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProgramFaults runs each program of README.md and docs that begins with process.Main on runtime/fake, in virtual
// time, with each fault kind of the fake: testdata/programs/faults_test.go has the rules.
func TestProgramFaults(t *testing.T) {
	tmp := t.TempDir()
	s := readSnippets(t, tmp)
	root, err := os.Getwd()
	require.NoError(t, err)
	rules := filepath.Join(root, "testdata", "programs", "faults_test.go")
	played := 0
	for _, name := range s.programs {
		if !s.onProcesses(t, name) {
			continue
		}
		file := s.overlay[filepath.Join(root, name, "main.go")]
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		played++
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, []byte(onFake(t, string(text))), 0o600))
			s.overlay[filepath.Join(root, name, "faults_test.go")] = rules
			list, err := json.Marshal(map[string]any{"Replace": s.overlay})
			require.NoError(t, err)
			overlay, binary := filepath.Join(tmp, name+".json"), filepath.Join(tmp, name+".test")
			require.NoError(t, os.WriteFile(overlay, list, 0o600))
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-buildvcs=false", "-tags=grpcnotrace", "-overlay="+overlay, "-ldflags=-s -w", "-o", binary, "./"+name)
			build.Env = append(os.Environ(), "GOWORK=off")
			out, err := build.CombinedOutput()
			require.NoError(t, err, "%s", out)
			pods := "web crash missing"
			if strings.Contains(string(text), `"sleeper"`) {
				pods = "sleeper"
			}
			run := exec.CommandContext(t.Context(), binary, "-test.timeout=20m")
			run.Dir = tmp
			run.Env = append(os.Environ(), "KEELSON_PODS="+pods, "KEELSON_INSTANTS="+strconv.Itoa(instants()))
			out, err = run.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.NotContains(t, string(out), "panic")
		})
	}
	assert.Equal(t, 3, played, "programs on the process backend")
}

// onFake returns a program with another backend, with an interrupt in place of signals, and without inotify and channels
// of package variables: waits for those keep virtual time from passing.
func onFake(t *testing.T, program string) string {
	t.Helper()
	for _, c := range [][2]string{
		{"process.New(", "newBackend("},
		{"signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)", "interrupted()"},
	} {
		require.Contains(t, program, c[0])
		program = strings.ReplaceAll(program, c[0], c[1])
	}
	program += "\nvar _, _, _ = signal.Ignore, os.Interrupt, syscall.SIGTERM\n"
	program = strings.ReplaceAll(program, "uplink = make(chan []*v1.Pod)", "uplink chan []*v1.Pod") // one of no bubble
	if strings.Contains(program, "fsnotify.Hinter{}") {
		program = strings.ReplaceAll(program, "fsnotify.Hinter{}", "nil") + "\nvar _ fsnotify.Hinter\n"
	}
	return program
}
