// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// A log collector finds the logs of each container under the kubelet's names, also after a restart of
// the agent, and no longer than the pod is there.
func TestLogCollectorsFindTheLogs(t *testing.T) {
	onEach(t, func(s *station) {
		dir := filepath.Join(s.dir, "containers")
		manifest, _ := s.service("web", "echo one; "+forever)
		s.write("web.yaml", manifest)
		s.start("--container-log-links", dir, "--keep-pods")
		pod := s.waitPhase("web-n", v1.PodRunning)
		_, id, _ := strings.Cut(mainOf(pod).ContainerID, "://")
		name := filepath.Join(dir, "web-n_default_main-"+id+".log")
		linked := func() bool {
			text, err := os.ReadFile(name)
			return err == nil && strings.Contains(string(text), "stdout F one\n")
		}
		s.eventually("the log is linked", linked)
		s.kill()
		s.start("--container-log-links", dir, "--keep-pods=false")
		s.waitPhase("web-n", v1.PodRunning)
		require.True(t, linked())
		s.remove("web.yaml")
		s.eventually("the link goes with its container", func() bool {
			_, err := os.Lstat(name)
			return os.IsNotExist(err)
		})
	})
}

// The links are off, unless the program is in the place of a kubelet, where collectors expect them.
func TestLogLinksByDefault(t *testing.T) {
	for _, tc := range []struct{ given, program, logs, want string }{
		{"", "nodeagent", "/var/lib/keelson/logs", ""},
		{"", "nodeagent", "/var/log/pods", ""},
		{"", "/usr/bin/kubelet", "/var/log/pods", "/var/log/containers"},
		{"", "/usr/bin/kubelet", "/mnt/logs", ""},
		{"none", "/usr/bin/kubelet", "/var/log/pods", ""},
		{"/mnt/links", "nodeagent", "/mnt/logs", "/mnt/links"},
	} {
		l := linkFlags{dir: tc.given}
		require.NoError(t, l.complete(tc.program, tc.logs))
		require.Equal(t, tc.want, l.dir, "%+v", tc)
	}
}
