// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// site serves a manifest.
type site struct {
	*httptest.Server
	mu     sync.Mutex
	body   string
	code   int
	secret string // the last Authorization that came
}

func newSite(t *testing.T) *site {
	s := &site{code: http.StatusOK}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.secret = r.Header.Get("Authorization")
		w.WriteHeader(s.code)
		_, _ = w.Write([]byte(s.body))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) serve(code int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.body = code, body
}

// Pods of a URL run beside pods of the folder, survive every invalid answer, and run again after a
// start of the agent without the site.
func TestPodsOfAURLSurviveItsAbsence(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	site := newSite(t)
	folder, folderPIDs := s.service("folder", forever)
	s.write("folder.yaml", folder)
	remote, remotePIDs := s.service("remote", forever)
	site.serve(http.StatusOK, remote)
	flags := []string{"--manifest-url", site.URL + "/pods?token=hunter2", "--manifest-url-header", "Authorization=Bearer hunter3", "--http-check-frequency", "200ms"}
	s.start(flags...)
	s.waitPhase("remote-n", v1.PodRunning)
	s.waitPhase("folder-n", v1.PodRunning)
	first := s.waitStarts(remotePIDs, 1)[0]
	site.mu.Lock()
	require.Equal(t, "Bearer hunter3", site.secret)
	site.mu.Unlock()

	s.Log("a bad answer changes nothing, and is said once")
	site.serve(http.StatusInternalServerError, remote)
	s.eventually("it is said", func() bool { return strings.Contains(s.log.String(), "500") })
	site.serve(http.StatusOK, "kind: [garbage")
	s.eventually("it is said", func() bool { return strings.Contains(s.log.String(), "not valid YAML") })
	require.True(t, alive(first))

	s.Log("the site is away when the agent starts: it runs what it ran, and a manifest that was removed is gone")
	s.eventually("the checkpoint is written", func() bool {
		_, err := os.Stat(filepath.Join(s.root, "desired", "checkpoint"))
		return err == nil
	})
	s.interrupt()
	require.False(t, alive(first))
	site.Close()
	s.remove("folder.yaml")
	s.start(flags...)
	s.waitStarts(remotePIDs, 2)
	s.waitPhase("remote-n", v1.PodRunning)
	require.NotContains(t, s.pods(), "folder-n")
	require.Len(t, s.waitStarts(folderPIDs, 1), 1)
	for _, secret := range []string{"hunter2", "hunter3"} {
		require.NotContains(t, s.log.String(), secret)
	}
}

// A liveness probe with a command restarts its container.
func TestExecProbes(t *testing.T) { onEach(t, checkExecProbes) }

func checkExecProbes(s *station) {
	healthy := filepath.Join(s.dir, "healthy")
	require.NoError(s, os.WriteFile(healthy, nil, 0o644))
	with := func(manifest, probes string) string {
		return strings.Replace(manifest, "      image:", probes+"      image:", 1)
	}
	manifest, pids := s.service("web", forever)
	probe := "{exec: {command: [test, -e, " + healthy + "]}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 2}\n"
	s.write("web.yaml", with(manifest, "      livenessProbe: "+probe+"      readinessProbe: "+probe))
	loud, _ := s.service("loud", forever)
	s.write("loud.yaml", with(loud, "      readinessProbe: {exec: {command: [/bin/sh, -c, \"head -c 10485760 /dev/zero\"]}, periodSeconds: 1, timeoutSeconds: 10}\n"))
	deaf, _ := s.service("deaf", forever)
	s.write("deaf.yaml", with(deaf, "      readinessProbe: {exec: {command: [/bin/sh, -c, \"trap '' TERM; sleep 1000\"]}, periodSeconds: 1, timeoutSeconds: 1}\n"))
	s.start()
	s.eventually("it is ready", func() bool { return isReady(s.pods()["web-n"]) })
	s.eventually("so is one whose probe prints 10 MiB", func() bool { return isReady(s.pods()["loud-n"]) })
	require.NoError(s, os.Remove(healthy))
	s.waitStarts(pids, 2)
	s.eventually("it is not ready", func() bool { return !isReady(s.pods()["web-n"]) })
	require.NoError(s, os.WriteFile(healthy, nil, 0o644))
	s.eventually("it is ready again", func() bool {
		pod := s.pods()["web-n"]
		return isReady(pod) && mainOf(pod).RestartCount >= 1
	})
	pod := s.pods()["deaf-n"]
	require.Equal(s, v1.PodRunning, pod.Status.Phase)
	require.False(s, isReady(pod), "its probe never ends by itself")
	require.Zero(s, mainOf(pod).RestartCount)
}
