// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

// logs is a folder with the logs of services, and others.
var logs = fstest.MapFS{
	"plain":             {Data: []byte("p1\np2\n")},
	"dotted.log":        {Data: []byte("d1 warn\nd2\nd3 warn\nd4")},
	"folder/folder.log": {Data: []byte("f1\n")},
	"folder/other.log":  {Data: []byte("o1\n")},
}

// journal has entries of the unit kubelet, and keeps the arguments of the last call.
type journal struct{ args []string }

func (j *journal) read(_ context.Context, args []string, w io.Writer) error {
	j.args = args
	units := ""
	for _, a := range args {
		if unit, ok := strings.CutPrefix(a, "--unit="); ok && (unit == "kubelet" || unit == "containerd") {
			units += unit + " started\n"
		}
	}
	_, err := io.WriteString(w, units)
	return err
}

func TestNodeLogQueries(t *testing.T) {
	j := &journal{}
	s := newServer(t, nodeserver.NodeLogsWithQueries(logs, j.read))
	for query, want := range map[string]string{
		"query=kubelet":                         "200 kubelet started\n",
		"query=kubelet&query=containerd":        "200 kubelet started\ncontainerd started\n",
		"query=plain":                           "200 p1\np2\n",
		"query=dotted":                          "200 d1 warn\nd2\nd3 warn\nd4",
		"query=folder":                          "200 f1\n",
		"query=kubelet&query=folder":            "200 kubelet started\nf1\n",
		"query=dotted&tailLines=2":              "200 d3 warn\nd4",
		"query=dotted&tailLines=0":              "200 ",
		"query=dotted&pattern=warn":             "200 d1 warn\nd3 warn\n",
		"query=dotted&pattern=warn&tailLines=1": "200 d3 warn\n",
		"query=/folder/other.log":               "200 o1\n",
		"query=folder/other.log":                "200 o1\n",

		"query=absent": "404 neither the journal nor the folder of logs has a log of absent",
		"query=plain&sinceTime=2026-01-02T15:04:05Z": "404 the journal has no entries of plain",
		"query=/absent.log":                          "404 open absent.log",
		"query=folder/":                              "500 folder/ is no file",
		"query=":                                     "406 query: \"\" is no name",
		"query=/../etc/passwd":                       "406 query: \"../etc/passwd\" is no path",
		"query=folder/../../etc/passwd":              "406 query: ",
		"query=..":                                   "404 ",
		"query=" + url.QueryEscape("a b"):            "406 query: \"a b\" is no name",
		"query=" + url.QueryEscape("$(reboot)"):      "406 query: ",
		"query=" + url.QueryEscape("a\n--file=b"):    "406 query: ",
		"query=" + strings.Repeat("x", 257):          "406 query: ",
		"query=a&query=b&query=c&query=d&query=e":    "406 query: want 4 services at most",
		"query=a&query=/b":                           "406 query: want services or a file, not both",
		"query=/a&query=/b":                          "400 query: one file at most",
		"query=/plain&boot=0":                        "406 sinceTime, untilTime and boot are for services",
		"query=a&boot=1":                             "406 boot: ",
		"query=a&boot=x":                             "400 boot: want a number",
		"query=a&tailLines=-1":                       "406 tailLines: ",
		"query=a&tailLines=100001":                   "406 tailLines: want 0 to 100000",
		"query=a&tailLines=x":                        "400 tailLines: want a number",
		"query=a&sinceTime=yesterday":                "400 sinceTime: want a time",
		"query=a&pattern=(":                          "400 pattern: ",
		"query=a&sinceTime=2026-01-02T15:04:05Z&untilTime=2026-01-02T15:04:04Z": "406 untilTime is before sinceTime",
	} {
		code, body := ask(t, s, "GET", "/logs/?"+query)
		got := strconv.Itoa(code) + " " + body
		if code != 200 {
			assert.Contains(t, got, want, query)
			continue
		}
		assert.Equal(t, want, got, query)
	}
	code, _ := ask(t, s, "GET", "/logs/folder?query=kubelet")
	assert.Equal(t, 406, code)
	code, body := ask(t, s, "GET", "/logs/plain")
	assert.Equal(t, 200, code)
	assert.Equal(t, "p1\np2\n", body)

	_, _ = ask(t, s, "GET", "/logs/?query=kubelet&boot=-1&tailLines=7&pattern=a.b&sinceTime=2026-01-02T15:04:05%2B01:00&untilTime=2026-01-03T15:04:05Z")
	assert.Equal(t, []string{"--utc", "--no-pager", "--output=short-precise", "--since=2026-01-02 14:04:05.000000 UTC", "--until=2026-01-03 15:04:05.000000 UTC",
		"--lines=7", "--unit=kubelet", "--grep=a.b", "--boot=-1"}, j.args)
}

// A journal that does not end is interrupted, and only some are read at the same time.
func TestAJournalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nodeserver.NodeLogsWithQueries(logs, func(ctx context.Context, _ []string, w io.Writer) error {
			_, _ = io.WriteString(w, "first\n")
			<-ctx.Done()
			return ctx.Err()
		}))
		began, answers := time.Now(), make(chan int)
		for range 5 {
			go func() {
				code, _ := ask(t, s, "GET", "/logs/?query=kubelet")
				answers <- code
			}()
		}
		assert.Equal(t, 429, <-answers)
		assert.Zero(t, time.Since(began))
		for range 4 {
			assert.Equal(t, 500, <-answers)
		}
		assert.Equal(t, 30*time.Second, time.Since(began))
	})
}

func TestAnErrorWithinAnAnswer(t *testing.T) {
	first := true
	s := newServer(t, nodeserver.NodeLogsWithQueries(logs, func(_ context.Context, _ []string, w io.Writer) error {
		_, _ = io.WriteString(w, "line\n")
		if first {
			first = false
			return nil
		}
		return errors.New("the journal is corrupt")
	}))
	code, body := ask(t, s, "GET", "/logs/?query=kubelet")
	assert.Equal(t, 200, code)
	assert.Equal(t, "line\n\nthe answer ends here: journalctl: the journal is corrupt\n", body)
}

// The program runs without a shell, with its arguments as they are, and ends with the context.
func TestJournalctl(t *testing.T) {
	program := filepath.Join(t.TempDir(), "journalctl")
	require.NoError(t, os.WriteFile(program, []byte(`#!/bin/sh
case $1 in
fail) echo reason >&2; exit 1;;
hang) echo started; exec sleep 1000;;
*) printf '%s|' "$@";;
esac
`), 0o700))
	run := nodeserver.Journalctl(program)
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"a b", "$(c)"}, &out))
	require.Equal(t, "a b|$(c)|", out.String())
	require.ErrorContains(t, run(t.Context(), []string{"fail"}, &out), "exit status 1: reason")
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error)
	go func() { ended <- run(ctx, []string{"hang"}, w) }()
	_, err := r.Read(make([]byte, 8))
	require.NoError(t, err)
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	require.Error(t, <-ended)
	w.Close()

	absent := newServer(t, nodeserver.NodeLogsWithQueries(logs, nodeserver.Journalctl(filepath.Join(t.TempDir(), "none"))))
	code, body := ask(t, absent, "GET", "/logs/?query=plain")
	require.Equal(t, 200, code)
	require.Equal(t, "p1\np2\n", body)
}
