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

// Pods of a URL run beside those of the folder, outlive every bad answer, and run
// again when the agent starts while the site is away.
func TestPodsOfAURLSurviveItsAbsence(t *testing.T) {
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

// A liveness probe that runs a command of the host restarts its container.
func TestProbesOnTheProcessBackend(t *testing.T) {
	s := newStation(t, backends["process"])
	healthy := filepath.Join(s.dir, "healthy")
	require.NoError(t, os.WriteFile(healthy, nil, 0o644))
	manifest, pids := s.service("web", forever)
	probe := "{exec: {command: [test, -e, " + healthy + "]}, periodSeconds: 1, failureThreshold: 2}"
	manifest = strings.Replace(manifest, "      image:", "      livenessProbe: "+probe+"\n      readinessProbe: "+probe+"\n      image:", 1)
	s.write("web.yaml", manifest)
	s.start()
	s.eventually("it is ready", func() bool {
		statuses := s.pods()["web-n"].Status.ContainerStatuses
		return len(statuses) == 1 && statuses[0].Ready
	})
	require.NoError(t, os.Remove(healthy))
	s.waitStarts(pids, 2)
	s.eventually("it is not ready", func() bool { return !s.pods()["web-n"].Status.ContainerStatuses[0].Ready })
	require.NoError(t, os.WriteFile(healthy, nil, 0o644))
	s.eventually("it is ready again", func() bool {
		c := s.pods()["web-n"].Status.ContainerStatuses[0]
		return c.Ready && c.RestartCount >= 1
	})
}
