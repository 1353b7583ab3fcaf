// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// An edit of a manifest with an explicit uid (or of any manifest with manifest.PathUID) is not a
// restart. The restart count starts again, as for the kubelet's new pod after an edit, and grows
// only after crashes.
func TestAnEditUnderTheSameUIDIsNoRestart(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	manifest, pids := s.service("web", forever)
	labelled := func(edit int) string {
		return strings.Replace(manifest, "{name: web}", fmt.Sprintf("{name: web, uid: same, labels: {edit: n%d}}", edit), 1)
	}
	s.write("web.yaml", labelled(-1))
	s.start()
	s.waitStarts(pids, 1)
	for edit := range 3 {
		s.write("web.yaml", labelled(edit))
		s.waitStarts(pids, edit+2)
		s.eventually("the edited pod runs, with no restart", func() bool {
			pod := s.pods()["web-n"]
			return pod.Labels["edit"] == fmt.Sprintf("n%d", edit) && isReady(pod) && mainOf(pod).RestartCount == 0
		})
		require.Empty(t, mainOf(s.pods()["web-n"]).LastTerminationState)
	}
	require.NoError(t, syscall.Kill(s.waitStarts(pids, 4)[3], syscall.SIGKILL))
	s.waitStarts(pids, 5)
	s.eventually("a crash counts", func() bool { pod := s.pods()["web-n"]; return isReady(pod) && mainOf(pod).RestartCount == 1 })
}
