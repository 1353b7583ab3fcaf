// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pages are what is written for readers.
func pages(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	return append([]string{"README.md"}, docs...)
}

// snippets are the Go code of all pages: programs, and files of tests.
type snippets struct {
	programs, tests []string // names of files in an overlay
	overlay         map[string]string
}

// TestReadmeCode compiles every Go program in README.md and docs, as if each were
// a package of this module, and runs those on the process backend and every test there. Tests are in one package,
// and so have names of their own.
func TestReadmeCode(t *testing.T) {
	tmp := t.TempDir()
	s := readSnippets(t, tmp)
	require.NotEmpty(t, s.programs)
	require.NotEmpty(t, s.tests)
	list := filepath.Join(tmp, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": s.overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, text, 0o600))
	run := func(t *testing.T, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	}
	t.Run("programs", func(t *testing.T) {
		build := func(dirs []string, flags ...string) {
			args := append([]string{"build", "-buildvcs=false", "-tags=grpcnotrace", "-overlay=" + list}, flags...)
			for _, dir := range dirs {
				args = append(args, "./"+dir)
			}
			run(t, "go", args...)
		}
		build(s.programs) // compiled, not linked
		var embedded, binaries []string
		for _, name := range s.programs {
			if s.onProcesses(t, name) {
				embedded, binaries = append(embedded, name), append(binaries, filepath.Join(tmp, name))
			}
		}
		build(embedded, "-ldflags=-s -w", "-o", tmp+"/")
		runEdgeAgent(t, binaries[0])
		interruptPrograms(t, binaries)
		for _, name := range embedded {
			if strings.HasPrefix(name, "zz_embedding1") { // the first of docs/embedding.md
				runPartsAgent(t, filepath.Join(tmp, name))
			}
		}
	})
	t.Run("tests", func(t *testing.T) {
		binary := filepath.Join(tmp, "pages.test")
		run(t, "go", "test", "-c", "-vet=off", "-tags=grpcnotrace", "-overlay="+list, "-ldflags=-s -w", "-o", binary, "./zz_pages")
		cmd := exec.CommandContext(t.Context(), binary, "-test.timeout=8m")
		cmd.Dir = tmp
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
}

// readSnippets makes an overlay, in which the go command sees files in the
// module that are not there.
func readSnippets(t *testing.T, tmp string) snippets {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	s := snippets{overlay: map[string]string{}}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for i, block := range goBlocks(string(text)) {
			if !strings.Contains(block, "package ") {
				t.Errorf("%s: block %d is no whole file; use another language than go for what is not compiled", page, i+1)
				continue
			}
			name := fmt.Sprintf("zz_%s%d", strings.ToLower(strings.TrimSuffix(filepath.Base(page), ".md")), i+1)
			name = strings.ReplaceAll(name, "-", "")
			file := filepath.Join(tmp, name+".go")
			require.NoError(t, os.WriteFile(file, []byte(block), 0o600))
			if isTest(block) {
				s.tests = append(s.tests, name)
				s.overlay[filepath.Join(root, "zz_pages", name+"_test.go")] = file
				continue
			}
			s.programs = append(s.programs, name)
			s.overlay[filepath.Join(root, name, "main.go")] = file
		}
	}
	return s
}

// onProcesses reports whether a program runs pods without a container engine.
func (s snippets) onProcesses(t *testing.T, name string) bool {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	text, err := os.ReadFile(s.overlay[filepath.Join(root, name, "main.go")])
	require.NoError(t, err)
	return strings.Contains(string(text), "process.Main()")
}

// runEdgeAgent runs README's agent: it starts the pod of a manifest, and stops
// it when it is interrupted.
func runEdgeAgent(t *testing.T, program string) {
	t.Helper()
	if goruntime.GOOS != "linux" {
		t.Skip("the process backend is Linux's")
	}
	dir := t.TempDir()
	pods, state, sign := filepath.Join(dir, "pods"), filepath.Join(dir, "state"), filepath.Join(dir, "sign")
	require.NoError(t, os.Mkdir(pods, 0o755))
	manifest := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {terminationGracePeriodSeconds: 5, containers: [{name: c, image: none,
		command: [/bin/sh, -c, "trap 'echo end >> %s; exit 0' TERM; echo begin >> %[1]s; while :; do sleep 1 & wait $!; done"]}]}}`, sign)
	require.NoError(t, os.WriteFile(filepath.Join(pods, "web.yaml"), []byte(manifest), 0o644))
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, pods, state)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	said := func() string { text, _ := os.ReadFile(sign); return string(text) }
	require.Eventually(t, func() bool { return said() == "begin\n" }, time.Minute, 50*time.Millisecond, "the pod starts")
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait(), "%s", &out)
	assert.Equal(t, "begin\nend\n", said(), "the pod is stopped with its grace period")
}

var fence = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// goBlocks returns the text of each block of Go in a Markdown document.
func goBlocks(text string) []string {
	var out []string
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func isTest(block string) bool { return strings.Contains(block, "\nfunc Test") }

func TestGoBlocks(t *testing.T) {
	const text = "a\n```go\npackage main\n\nfunc main() {}\n```\n```yaml\nb: c\n```\n\n```go\nfunc TestX() {}\n```\n"
	assert.Equal(t, []string{"package main\n\nfunc main() {}\n", "func TestX() {}\n"}, goBlocks(text))
	assert.True(t, isTest("package p\n\nfunc TestX(t *testing.T) {}\n"))
	assert.False(t, isTest("package main\n\nfunc main() {}\n"))
}
