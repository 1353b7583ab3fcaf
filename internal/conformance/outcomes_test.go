// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="7"><testsuite name="Kubernetes e2e suite">
<testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
<testcase name="[It] [sig-node] a" status="passed"></testcase>
<testcase name="[It] [sig-node] b" status="failed"><failure message="" type="failed">[FAILED] timed out&#xA;more</failure></testcase>
<testcase name="[It] [sig-node] c" status="panicked"><error message="a	panic" type="panicked"></error></testcase>
<testcase name="[It] [sig-node] d" status="skipped"><skipped message="skipped - no AppArmor"></skipped></testcase>
<testcase name="[It] [sig-node] not selected" status="skipped"><skipped message="skipped"></skipped></testcase>
</testsuite></testsuites>`

// A report has the selected specs only, with the first line of a reason.
func TestParseReport(t *testing.T) {
	found, err := parseReport(strings.NewReader(report))
	require.NoError(t, err)
	assert.Equal(t, outcomes{
		"[sig-node] a": {state: passed},
		"[sig-node] b": {failed, "timed out"},
		"[sig-node] c": {failed, "a panic"},
		"[sig-node] d": {skipped, "no AppArmor"},
	}, found)
	assert.Equal(t, "1 passed, 2 failed, 1 skipped", found.count())
	assert.Equal(t, []string{"[sig-node] b", "[sig-node] c"}, found.names(failed))
}

// A suite that could not start is an error, not a success without specs.
func TestReportWithoutSpecs(t *testing.T) {
	_, err := parseReport(strings.NewReader(strings.ReplaceAll(report, "[It]", "[Other]")))
	assert.ErrorContains(t, err, "[sig-node] b: timed out")
	_, err = parseReport(strings.NewReader(`<testsuites><testsuite></testsuite></testsuites>`))
	assert.EqualError(t, err, "no spec was run")
	_, err = parseReport(strings.NewReader("text"))
	assert.Error(t, err)
	_, err = readReport(filepath.Join(t.TempDir(), "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// Only a failed spec that passes alone becomes flaky.
func TestRerun(t *testing.T) {
	first := outcomes{"a": {state: passed}, "b": {failed, "first"}, "c": {failed, "first"}, "d": {failed, "first"}}
	first.rerun(outcomes{"a": {failed, "again"}, "b": {state: passed}, "c": {failed, "again"}, "e": {state: passed}})
	assert.Equal(t, outcomes{"a": {state: passed}, "b": {flaky, "first"}, "c": {failed, "first"}, "d": {failed, "first"}}, first)
}

// The worst run of an agent counts, and a fault is a failure of the node agent alone.
func TestCompare(t *testing.T) {
	r := results{
		kubelet: {
			{"both": {failed, "k"}, "ours": {state: passed}, "theirs": {failed, "k"}, "ok": {state: passed}, "skips": {skipped, "s"}, "missing": {state: passed}},
			{"both": {failed, "k"}, "ours": {state: flaky}, "theirs": {failed, "k"}, "ok": {state: passed}, "skips": {skipped, "s"}, "missing": {state: passed}},
		},
		keelson: {
			{"both": {failed, "o"}, "ours": {state: passed}, "theirs": {state: passed}, "ok": {state: passed}, "skips": {skipped, "s"}},
			{"both": {failed, "o"}, "ours": {failed, "o"}, "theirs": {state: passed}, "ok": {state: passed}, "skips": {skipped, "s"}},
		},
	}
	assert.Equal(t, []difference{
		{"both", outcome{failed, "k"}, outcome{failed, "o"}},
		{"missing", outcome{state: passed}, outcome{}},
		{"ours", outcome{state: flaky}, outcome{failed, "o"}},
		{"theirs", outcome{failed, "k"}, outcome{state: passed}},
	}, r.differences())
	assert.Equal(t, []difference{{"ours", outcome{state: flaky}, outcome{failed, "o"}}}, r.faults())
	assert.Contains(t, describe(r.differences()), "passed   –        missing\n")
	assert.Contains(t, describe(r.differences()), "failed   passed   theirs\n                  k\n")
	assert.Contains(t, r.summary(), "kubelet       2       6       2       1       2       1\n")

	file := filepath.Join(t.TempDir(), "results.tsv")
	require.NoError(t, writeOutcomes(file, r))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(text), "spec\tkeelson 1\tkeelson 2\tkubelet 1\tkubelet 2\n")
	assert.Contains(t, string(text), "missing\t–\t–\tpassed\tpassed\n")
	assert.Contains(t, string(text), "ours\tpassed\tfailed\tpassed\tflaky\n")
}

// With a single agent every failure is a fault.
func TestOneAgent(t *testing.T) {
	r := results{keelson: {{"a": {state: passed}, "b": {failed, "o"}, "c": {skipped, "s"}}}}
	assert.Equal(t, []difference{{"b", outcome{}, outcome{failed, "o"}}}, r.differences())
	assert.Equal(t, r.differences(), r.faults())
}
