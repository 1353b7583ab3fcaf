// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// TestDemands runs manifests that ask for what a node may not have. testdata/demands/NAME.yaml has the spec of a pod. Its
// comments say what becomes of the pod on each backend: the begin of the error or of the status, as a regular expression.
// No manifest waits without a reason, and none runs without what it asks for.
func TestDemands(t *testing.T) {
	files, err := filepath.Glob("testdata/demands/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 30)
	for _, backend := range []string{"process", "containerd"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, backends[backend])
			wants := map[string]string{}
			for _, path := range files {
				name := strings.TrimSuffix(filepath.Base(path), ".yaml")
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				wants[name] = wanted(string(text), backend)
				s.write(name+".yaml", fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n%s", name, text))
			}
			s.start()
			for name, want := range wants {
				s.eventually(name+" has an outcome", func() bool { return s.outcome(name) != "" })
				assert.Regexp(t, "^("+want+")", s.outcome(name), name)
			}
		})
	}
}

// wanted returns the outcome in the comment of a manifest: "# process, containerd: PATTERN".
func wanted(text, backend string) string {
	for line := range strings.Lines(text) {
		names, pattern, ok := strings.Cut(strings.TrimPrefix(line, "# "), ": ")
		if ok && strings.HasPrefix(line, "# ") && strings.Contains(names, backend) {
			return strings.TrimSpace(pattern)
		}
	}
	return ""
}

var refusedManifest = regexp.MustCompile(`"error":"[^"]*/([a-z0-9-]+)\.yaml:((?:[^"\\]|\\.)*)"`)

// outcome returns what has become of the pod of a manifest, "" as long as that is open.
func (s *station) outcome(name string) string {
	for _, line := range s.log.about(manifestNotUsed) {
		if found := refusedManifest.FindStringSubmatch(line); found != nil && found[1] == name {
			return found[2]
		}
	}
	pod, known := s.pods()[name+"-n"]
	switch {
	case !known:
	case pod.Status.Phase == v1.PodFailed:
		return pod.Status.Reason + ": " + pod.Status.Message
	case isReady(pod):
		return "runs"
	case len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Waiting != nil:
		if w := pod.Status.ContainerStatuses[0].State.Waiting; w.Message != "" {
			return w.Reason + ": " + w.Message
		}
	}
	return ""
}
