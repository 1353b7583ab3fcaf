// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// runOnce runs the station's manifests once, and returns the table, the log and the exit code.
func runOnce(s *station, flags ...string) (table, log string, code int) {
	s.Helper()
	cmd := exec.Command(os.Args[0], append([]string{s.manifests, "--runonce", "--root-dir", s.root, "--hostname-override", "n"}, flags...)...)
	cmd.Env = append(os.Environ(), asAgent+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		require.ErrorAs(s, err, new(*exec.ExitError))
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func onceJob(name, more, command string) string {
	return `apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  restartPolicy: Never` + more + `
  containers:
    - {name: c, image: "localhost/busybox:1", command: [/bin/sh, -c, "` + command + `"]}
`
}

func TestRunOnceOnProcesses(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	manifest, pids := s.service("web", forever)
	s.write("web.yaml", manifest)
	s.write("job.yaml", onceJob("job", "\n  nodeSelector: {site: north}", "sleep 0.3"))
	table, log, code := runOnce(s, "--node-labels", "site=north")
	require.Zero(t, code, log)
	require.Regexp(t, `(?m)^POD +RESULT +PHASE +READY +RESTARTS +MESSAGE$`, table)
	require.Regexp(t, `(?m)^job-n +succeeded +Succeeded +0/1 +0$`, table)
	require.Regexp(t, `(?m)^web-n +running +Running +1/1 +0$`, table)
	pid := s.waitStarts(pids, 1)[0]
	require.True(t, alive(pid), "what runs goes on")

	// The second run adopts running pods and reports every failure.
	s.write("bad.yaml", onceJob("bad", "", "exit 3"))
	s.write("job.yaml", onceJob("job", "\n  nodeSelector: {site: south}", "true"))
	s.write("late.yaml", onceJob("late", "\n  activeDeadlineSeconds: 1", "sleep 1000"))
	table, _, code = runOnce(s, "--node-labels", "site=north")
	require.Equal(t, 1, code)
	require.Regexp(t, `(?m)^bad-n +failed +Failed .*3`, table)
	require.Regexp(t, `(?m)^job-n +rejected +Failed .*NodeAffinity: Pod was rejected: Predicate NodeAffinity failed`, table)
	require.Regexp(t, `(?m)^late-n +failed +Failed .*DeadlineExceeded: Pod was active`, table)
	require.Regexp(t, `(?m)^web-n +running`, table)
	require.Equal(t, []int{pid}, s.started(pids))

	// An invalid manifest is a failure. With the flag, the pods are stopped.
	for _, name := range []string{"bad.yaml", "job.yaml", "late.yaml"} {
		s.remove(name)
	}
	s.write("broken.yaml", "kind: [")
	table, log, code = runOnce(s, "--keep-pods=false")
	require.Equal(t, 1, code)
	require.Regexp(t, `(?m)^web-n +running`, table)
	require.Contains(t, log, "1 manifests were not used")
	require.False(t, alive(pid))
}

func TestRunOnceRefusesWhatMakesNoSense(t *testing.T) {
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"leave out --kubeconfig":            {"--kubeconfig", "k"},
		"leave out --read-only-port":        {dir, "--read-only-port", "1234"},
		"--runonce-timeout -1s: want more":  {dir, "--runonce-timeout", "-1s"},
		"which manifests?":                  nil,
		"--node-labels a_=b":                {dir, "--node-labels", "a_=b"},
		"--max-pods -1":                     {dir, "--max-pods", "-1"},
		`--register-with-taints: "a=b:Now"`: {dir, "--register-with-taints", "a=b:Now"},
		`--kube-reserved: "gpu"`:            {dir, "--kube-reserved", "gpu=1"},
		"--system-reserved: cpu=much":       {dir, "--system-reserved", "cpu=much"},
		"keep 1M of cpu":                    {dir, "--system-reserved", "cpu=500k", "--kube-reserved", "cpu=500k"},
	} {
		_, err := parseFlags(append([]string{"--runonce"}, args...))
		require.ErrorContains(t, err, want)
		require.NotRegexp(t, regexp.MustCompile(`\n`), err.Error())
	}
	_, err := parseFlags([]string{dir, "--runonce-timeout", "1s"})
	require.ErrorContains(t, err, "without --runonce")
	f, err := parseFlags([]string{dir, "--runonce"})
	require.NoError(t, err)
	require.Zero(t, f.port)
	require.True(t, f.keepPods)
}
