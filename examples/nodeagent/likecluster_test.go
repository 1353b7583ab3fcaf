// SPDX-License-Identifier: Apache-2.0

//go:build linux && !noapiserver && !nolocalapi

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/internal/testport"
)

// sharedSession is what a user of kubectl does with a lone node and with a node of a cluster, in this
// order. "~" is a space in an argument. A difference is the reason why the answers differ.
var sharedSession = []struct{ command, difference string }{
	{"apply -f web.yaml", ""},
	{"wait pod/web --for=condition=Ready --timeout=60s", ""},
	{"get pod web", ""},
	{"get pods -o wide", ""},
	{"get pods -l app=web", ""},
	{"get pods -l app!=web", ""},
	{"get pods --field-selector status.phase=Running -o name", ""},
	{"get pods --field-selector spec.nodeName=elsewhere", ""},
	{"get pod web -o jsonpath={.status.phase}~{.status.qosClass}~{.spec.containers[*].name}~{.spec.restartPolicy}", ""},
	{"get pod web -o custom-columns=NAME:.metadata.name,READY:.status.containerStatuses[*].ready", ""},
	{"get pod none", ""},
	{"get node localhost", ""},
	{"get namespaces", "a cluster has namespaces of its own"},
	{"logs web", ""},
	{"logs web --tail=1", ""},
	{"logs web --since=1h --limit-bytes=5", ""},
	{"logs -l app=web --prefix", ""},
	{"logs web --previous", "the error names the pod with its node"},
	{"logs web -c other", ""},
	{"exec web -- echo hello", ""},
	{"exec web -- sh -c echo~out;sleep~1;echo~err~>&2;exit~3", ""},
	{"exec web -- no-such-command", ""},
	{"cp blob web:copied", ""},
	{"exec web -- wc -c copied", ""},
	{"cp web:copied back", ""},
	{"describe pod web", "the annotations, the tolerations and the priority are those of a static pod"},
	{"events --for pod/web", ""},
	{"label pod web x=y", ""},
	{"get pod web --show-labels", ""},
	{"annotate pod web a=b", ""},
	{"apply -f web.yaml", ""},
	{"apply -f bad.yaml", "an API server repeats the patch in its error"},
	{"apply -f web.yaml --dry-run=server", ""},
	{"get configmaps", "a lone node has no objects but pods, nodes, namespaces and events"},
	{"delete pod none", ""},
	{"delete -f web.yaml --timeout=30s", ""},
	{"get pods", ""},
	{"wait pod/web --for=delete --timeout=10s", ""},
}

// A session with a lone node has the answers of a cluster, except for those that are listed.
func TestLoneNodeAnswersAsACluster(t *testing.T) {
	slowly(t)
	cert, key := clientCertificate(t)
	// The disk of the test's machine may be fuller than a node's should be.
	s := startServed(t, backends["process"], cert, key, apiservertest.Options{}, "--eviction-hard", "memory.available<1Mi", "--merge-default-eviction-settings=false")
	lone := newStation(t, backends["process"])
	short, err := os.MkdirTemp("", "lone") // the path of a socket has to be short
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(short)) })
	socket := filepath.Join(short, "s")
	lone.start("--hostname-override", "localhost", "--socket", socket, "--kubectl-port", strconv.Itoa(testport.Free(t)))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "kubeconfig", "--socket", socket)
	cmd.Env = append(os.Environ(), asAgent+"=1")
	config, err := cmd.Output()
	require.NoError(t, err)

	const manifest = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}, annotations: {keelson.dev/update: Replace}} # a version has events, at its own times
spec:
  nodeName: localhost
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "localhost/busybox:1", command: [sh, -c, "echo one; echo two; while :; do sleep 0.2; done"]}
`
	run := func(kubeconfig string) func(line string) string {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"web.yaml": manifest, "bad.yaml": strings.Replace(manifest, "{name: main", "{imagee: x, name: main", 1),
			"blob": strings.Repeat("0123456789", 1000), "config": kubeconfig,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		return func(line string) string {
			args := strings.Fields(line)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "~", " ")
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv(apiservertest.DirVariable), "kubectl"), args...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "KUBECONFIG="+filepath.Join(dir, "config"), asAgent+"=1")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				out.WriteString(err.Error())
			}
			return alike(out.String())
		}
	}
	cluster, err := os.ReadFile(s.server.Kubeconfig())
	require.NoError(t, err)
	ofCluster, ofLone := run(string(cluster)), run(string(config))
	same := 0
	for _, step := range sharedSession {
		want, got := ofCluster(step.command), ofLone(step.command)
		switch {
		case step.difference == "":
			if assert.Equal(t, want, got, step.command) {
				same++
			}
		default:
			assert.NotEqual(t, want, got, "%s: the difference is gone", step.command)
		}
	}
	t.Logf("%d of %d answers are equal", same, len(sharedSession))
}

// varying are the parts of answers that differ between two runs, too.
var varying = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b\d+(ms|s|m\d+s|m)\b`), "AGE"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`), "IP"},
	{regexp.MustCompile(`[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\w{3}, \d\d \w{3} \d{4} [0-9:]+ [+-]\d{4}`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`process://\S+`), "ID"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(`(?m) $`), ""},
}

// alike returns an answer without its varying parts.
func alike(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}
