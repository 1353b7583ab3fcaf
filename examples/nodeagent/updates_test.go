// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/updates"
)

// transactional returns a manifest of a service with transactional updates. Its gate is longer than a busy
// machine needs to notice the end of a process.
func (s *station) transactional(name, body string) (manifest, pids string) {
	manifest, pids = s.service(name, body)
	return strings.Replace(manifest, "{name: "+name+"}", "{name: "+name+
		`, annotations: {keelson.dev/update: Transactional, keelson.dev/update-gate-seconds: "5", keelson.dev/update-deadline-seconds: "60"}}`, 1), pids
}

// update returns the record of the only unit.
func (s *station) update() updates.Unit {
	s.Helper()
	units, err := updates.Units(updatesDir(s.root))
	require.NoError(s, err)
	if len(units) != 1 {
		return updates.Unit{}
	}
	return units[0]
}

// waitSteady waits until the unit has a good version other than the one before, and none is tried.
func (s *station) waitSteady(before string) updates.Record {
	s.Helper()
	s.eventually("a version is good", func() bool {
		r := s.update().Record
		return r.Phase == updates.Steady && r.Good != before
	})
	return s.update().Record
}

// command runs "nodeagent history" or "nodeagent rollback".
func (s *station) command(args ...string) (out string, code int) {
	var b bytes.Buffer
	code = changeVersions(args[0], append(args[1:], "--root-dir", s.root), &b, &b)
	return b.String(), code
}

// A good version replaces the version before, a bad version is replaced by the last good version,
// and stays away until the manifest changes, also across agents.
func TestTransactionalUpdates(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	manifest, pids := s.transactional("web", forever)
	s.write("web.yaml", manifest)
	s.start("--keep-pods")
	first := s.waitSteady("").Good
	require.Len(t, s.waitStarts(pids, 1), 1)

	s.write("web.yaml", strings.Replace(manifest, "name: main", "name: better", 1))
	second := s.waitSteady(first).Good
	require.Len(t, s.waitStarts(pids, 2), 2)

	bad := strings.Replace(manifest, forever, "exit 3", 1)
	require.NotEqual(t, manifest, bad)
	s.write("web.yaml", bad)
	s.eventually("the bad version is replaced", func() bool {
		r := s.update().Record
		return r.Phase == updates.Steady && r.Good == second && r.Reason != ""
	})
	r := s.update().Record
	require.Contains(t, r.Message, "exit code 3")
	s.eventually("the last good version runs", func() bool {
		pod := s.pods()["web-n"]
		return isReady(pod) && pod.Spec.Containers[0].Name == "better" && pod.Annotations[updates.AnnotationVersion] == second
	})
	starts := len(s.started(pids))

	s.kill() // the next agent takes the pod over, and does not try the bad version again
	s.start("--keep-pods")
	s.waitPhase("web-n", "Running")
	time.Sleep(time.Second)
	require.Equal(t, second, s.update().Record.Good)
	require.Len(t, s.started(pids), starts, "the pod was not touched")

	s.write("web.yaml", "{") // does not parse
	s.kill()
	s.start("--keep-pods")
	s.waitPhase("web-n", "Running")
	time.Sleep(time.Second)
	require.Len(t, s.started(pids), starts, "a manifest that does not parse leaves the pod alone, also at the start")
	s.write("web.yaml", bad)

	out, code := s.command("history", "web-n")
	require.Zero(t, code, out)
	require.Contains(t, out, updates.EventFailed)
	require.Contains(t, out, second)
	short, code := s.command("history", "web")
	require.Zero(t, code, short)
	require.Equal(t, out, short, "the name as nodeagent ps shows it")
	out, code = s.command("rollback", "web")
	require.Zero(t, code, out)
	require.Equal(t, first, s.waitSteady(second).Good)
	out, code = s.command("rollback", "none")
	require.Equal(t, 1, code, out)

	s.remove("web.yaml")
	s.eventually("the pod and its record are gone", func() bool { return len(s.pods()) == 0 && s.update().Name == "" })
	for _, pid := range s.started(pids) {
		require.False(t, alive(pid))
	}
}

// An agent is killed at random instants of updates. The pod always comes back.
func TestTransactionalUpdatesUnderKills(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	manifest, pids := s.transactional("web", forever)
	s.write("web.yaml", manifest)
	s.start("--keep-pods")
	good := s.waitSteady("").Good
	for round := range 5 {
		edit := strings.Replace(manifest, "{name: web,", fmt.Sprintf("{name: web, labels: {round: r%d},", round), 1)
		if round%2 == 1 {
			edit = strings.Replace(edit, forever, "exit 3", 1)
		}
		s.write("web.yaml", edit)
		time.Sleep(time.Duration(rand.IntN(2500)) * time.Millisecond)
		s.kill()
		s.start("--keep-pods")
		s.eventually("the update ends", func() bool {
			r := s.update().Record
			if r.Phase != updates.Steady {
				return false
			}
			if round%2 == 1 {
				return r.Good == good && r.Reason != ""
			}
			return r.Good != good
		})
		good = s.update().Record.Good
		s.eventually("the good version runs", func() bool {
			pod := s.pods()["web-n"]
			return isReady(pod) && pod.Annotations[updates.AnnotationVersion] == good
		})
	}
	running := 0
	for _, pid := range s.started(pids) {
		if alive(pid) && syscall.Kill(pid, 0) == nil {
			running++
		}
	}
	require.Equal(t, 1, running)
	_, err := os.Stat(updatesDir(s.root))
	require.NoError(t, err)
	s.remove("web.yaml") // with --keep-pods the pod would outlive the test
	s.eventually("the pod is gone", func() bool { return len(s.pods()) == 0 })
}
