// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// call runs a command.
func call(t *testing.T, args ...string) (stdout string, err error) {
	var out, errors bytes.Buffer
	err = run(t.Context(), args, &out, &errors)
	return out.String() + errors.String(), err
}

// openbFolder has a small trace in the format of openb.
func openbFolder(t *testing.T) string {
	dir := t.TempDir()
	var nodes, pods strings.Builder
	nodes.WriteString("sn,cpu_milli,memory_mib,gpu,model\n")
	for i := range 40 {
		fmt.Fprintf(&nodes, "node-%03d,96000,393216,8,T4\n", i)
	}
	pods.WriteString("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n")
	for i := range 600 {
		gpus := []string{"0,0", "1,250", "1,700", "1,1000", "2,1000"}[i*7%5]
		fmt.Fprintf(&pods, "pod-%04d,%d,4096,%s,,LS,Running,%d,%d,%d\n", i, 1000*(1+i%8), gpus, 10*i, 10*i+3600, 10*i+1)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openb_node_list_gpu_node.csv"), []byte(nodes.String()), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openb_pod_list_default.csv"), []byte(pods.String()), 0o644))
	return dir
}

// documented returns the arguments of the command with a text in the first 60 lines of
// docs/simulation.md.
func documented(t *testing.T, text string) []string {
	page, err := os.ReadFile("../../../docs/simulation.md")
	require.NoError(t, err)
	for _, line := range strings.SplitN(string(page), "\n", 61)[:60] {
		if args, is := strings.CutPrefix(line, "go run ./examples/simulation/simulate "); is && strings.Contains(args, text) {
			return strings.Fields(args)
		}
	}
	t.Fatalf("no command with %q in the first 60 lines", text)
	return nil
}

// TestFirstResult: two policies on a trace give a page in a single command, the first of the docs.
func TestFirstResult(t *testing.T) {
	dir := openbFolder(t)
	page := filepath.Join(dir, "page.html")
	args := documented(t, "-trace openb:data/csv")
	for i := range args {
		args[i] = strings.NewReplacer("data/csv", dir, "page.html", page).Replace(args[i])
	}
	out, err := call(t, append(args, "-csv", filepath.Join(dir, "csv"))...)
	require.NoError(t, err)
	assert.Contains(t, out, "GPU allocation at 100 % demand")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, want := range []string{"BestFit", "FGD", "openb default, sha256 ", "Fragmented gpu", "Stranded gpu", "<dd>42</dd>"} {
		assert.Contains(t, string(text), want)
	}
	assert.FileExists(t, filepath.Join(dir, "csv", "summary.csv"))

	out, err = call(t, "table", "-trace", "openb:"+dir, "-seeds", "2")
	assert.ErrorContains(t, err, "6 medians are outside of the published ranges", "the list is not the published list")
	assert.Contains(t, out, "| default | FGD |")
}

// TestJournals: journals of two runs are compared, and a page of journals is equal in a second run.
func TestJournals(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	var pages []string
	for _, round := range []string{"1", "2"} {
		for _, policy := range []string{"kube", "kube-most-allocated"} {
			_, err := call(t, "run", "-nodes", "3", "-jobs", "200", "-mean", "30s", "-policy", policy, "-faults", "50", "-image", "1Gi", "-bandwidth", "100Mi",
				"-create", "1s", "-diurnal", "0.2", "-journal", path(policy), "-csv", path("csv"))
			require.NoError(t, err)
			assert.FileExists(t, path("csv/pods.csv"))
		}
		_, err := call(t, "compare", "-html", path(round), path("kube"), path("kube-most-allocated"))
		require.NoError(t, err)
		page, err := os.ReadFile(path(round))
		require.NoError(t, err)
		pages = append(pages, string(page))
	}
	assert.True(t, pages[0] == pages[1])
	assert.Contains(t, pages[0], "images of 1Gi at 100Mi/s")
}

func TestReplayAndPhilly(t *testing.T) {
	dir := openbFolder(t)
	out, err := call(t, "run", "-trace", "openb:"+dir+":default", "-replay", "-policy", "GpuPacking")
	require.NoError(t, err)
	assert.Contains(t, out, "job completion time")
	log := filepath.Join(dir, "log")
	require.NoError(t, os.WriteFile(log, []byte(`[{"status": "Pass", "vc": "a", "jobid": "j", "user": "u", "submitted_time": "2017-10-09 08:00:00", "attempts": [
		{"start_time": "2017-10-09 08:01:00", "end_time": "2017-10-09 08:11:00", "detail": [{"ip": "m", "gpus": ["a", "b"]}]}]}]`), 0o644))
	out, err = call(t, "run", "-trace", "philly:"+log, "-nodes", "2", "-node", "cpu=8,memory=1Gi,gpus=4", "-policy", "FGD")
	require.NoError(t, err)
	assert.Contains(t, out, "10 min")
	require.NoError(t, os.WriteFile(log, []byte("[]"), 0o644))
	_, err = call(t, "run", "-trace", "philly:"+log)
	assert.ErrorContains(t, err, log+": no pod ran")

	// {"version": 2, "events": [{"ts": 5, "applied_objs": [a pod]}]}
	pod := "\x84\xaaapiVersion\xa2v1\xa4kind\xa3Pod\xa8metadata\x81\xa4name\xa1p\xa4spec\x81\xaacontainers\x91\x81\xa4name\xa1c"
	require.NoError(t, os.WriteFile(log, []byte("\x82\xa7version\x02\xa6events\x91\x82\xa2ts\x05\xacapplied_objs\x91"+pod), 0o644))
	out, err = call(t, "run", "-trace", "simkube:"+log)
	require.NoError(t, err)
	assert.Contains(t, out, "submitted")
}

// TestBackends: the journals of a trace on both backends differ in the name of the backend and in times
// of decisions alone.
func TestBackends(t *testing.T) {
	dir := openbFolder(t)
	lines := func(backend string) (events []string) {
		path := filepath.Join(dir, backend)
		_, err := call(t, "run", "-trace", "openb:"+dir, "-replay", "-policy", "FGD", "-seed", "7", "-stop", "2s", "-backend", backend, "-journal", path)
		require.NoError(t, err)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(text), `"backend":"`+backend+`"`)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"event"`) {
				events = append(events, line)
			}
		}
		return events
	}
	timers, agents := lines("timers"), lines("agents")
	assert.Greater(t, len(timers), 1800)
	assert.Equal(t, timers, agents)
}

// TestMistakes: an error names the flag, the value and the remedy.
func TestMistakes(t *testing.T) {
	dir := openbFolder(t)
	for args, want := range map[string]string{
		"walk":                                    `no command is named "walk"; the commands are run, compare and table`,
		"run extra":                               `run: unexpected argument "extra"`,
		"run -policy worst":                       "-policy worst: want kube, kube-most-allocated, Random",
		"run -policy kube,FGD":                    "run has a single policy",
		"compare -policy kube":                    "want two to six policies",
		"compare -seed 1 a.jsonl":                 "-seed has no effect on journals",
		"compare nothing.jsonl":                   "nothing.jsonl: no such file",
		"run -trace borg:x":                       "-trace borg:x: want poisson, openb:FOLDER",
		"run -trace openb:/nowhere":               "/nowhere has no openb_node_list_gpu_node.csv",
		"run -trace openb:" + dir + ":other":      `no pod list "other"; the lists are default`,
		"run -trace philly:/nowhere":              "/nowhere: no such file",
		"run -backend kubelet":                    "-backend kubelet: want timers, agents or api",
		"run -backend api":                        "-backend api needs -kubeconfig FILE",
		"run -backend api -kubeconfig /nowhere":   "-kubeconfig: stat /nowhere: no such file",
		"run -namespace x":                        "-kubeconfig and -namespace: only with -backend api",
		"run -replay":                             "-replay: only of -trace openb:FOLDER",
		"run -nodes 0":                            "-nodes 0: want at least 1",
		"run -node cpu":                           `-node: "cpu": want NAME=AMOUNT`,
		"run -node cpu=x":                         `-node: "cpu=x": quantities`,
		"run -node gpus=0.5":                      "-node: gpus=0.5: want a whole number",
		"run -pods gpus=1.5":                      "-pods: gpus=1.5: want whole GPUs",
		"run -pods cpu=-1":                        `-pods: "cpu=-1": negative`,
		"run -jobs 0":                             "-jobs, -every and -mean must be positive",
		"run -image 1Gi":                          "-image and -bandwidth belong together",
		"run -faults -1":                          "-faults is not negative",
		"run -html /nowhere/x.html -jobs 1":       "/nowhere/x.html: no such file",
		"table":                                   "want openb:FOLDER",
		"table -trace openb:" + dir + " -seeds 0": "-seeds 0: want at least 1",
	} {
		_, err := call(t, strings.Fields(args)...)
		assert.ErrorContains(t, err, want, args)
	}
	out, err := call(t, "run", "-nothing")
	assert.ErrorIs(t, err, errUsage)
	assert.Contains(t, out, "flag provided but not defined: -nothing")
	out, err = call(t, "run", "-help")
	assert.ErrorIs(t, err, flag.ErrHelp)
	assert.Contains(t, out, "-diurnal")
	out, err = call(t, "help")
	require.NoError(t, err)
	assert.Contains(t, out, "simulate compare")
}
