// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Tests of calm: each fault is made and found. Without the last commands, which make the fault,
// calm succeeds.
func TestSettled(t *testing.T) {
	for _, c := range []struct {
		name         string
		right, wrong []string
		want         string
	}{
		{"lost", []string{"apply p"}, []string{"agent stop", "apply q"}, "pod q (uid-q): it is lost"},
		{"deleted, and still there", []string{"bind p"}, []string{"agent stop", "delete p"}, "it was deleted, and is still on the API server"},
		{"the API server has another phase", []string{"bind p restart=Never"}, []string{"api down", "exit p/c 0", "sleep 1m"}, `the API server has phase "Running", the agent "Succeeded"`},
		{"the API server has another container", []string{"bind p"}, []string{"api down", "exit p/c 0", "sleep 1m"}, "the API server has not got the latest status of container c"},
		{"never started", []string{"apply p"}, []string{"runtime down", "apply q", "sleep 1m"}, "container c was never started"},
		{"not started again", []string{"apply p"}, []string{"agent stop", "exit p/c 1", "sleep 6m"}, "container c does not run, and nothing has happened for it since"},
		{"of an old spec", []string{"apply p"}, []string{"agent stop", "apply p v=2"}, "the image of running container c"},
		{"published as running", []string{"apply p"}, []string{"agent stop", "exit p/c 1"}, "container c is published as running in"},
		{"not published as running", []string{"apply p"}, []string{"agent stop", "replace p/c"}, "is published as running"},
		{"runs, and nobody wants it", []string{"apply p"}, []string{"agent stop", "remove p"}, "nobody wants p (uid-p), and the runtime still has it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := playing(t, c.right...)
				require.NoError(t, p.settled(0))
				p.run(t, c.wrong...)
				require.ErrorContains(t, p.settled(0), c.want)
			})
		})
	}
}

func playing(t *testing.T, commands ...string) *player {
	p := &player{script: &Script{}, root: t.TempDir()}
	require.NoError(t, p.begin(setup{}))
	t.Cleanup(func() { _ = p.finish() })
	p.run(t, append(commands, "sleep 1m")...)
	return p
}

func (p *player) run(t *testing.T, commands ...string) {
	for _, text := range commands {
		line, err := parseLine(text)
		require.NoError(t, err)
		require.NoError(t, line.do(p), text)
		p.sleep(apart)
	}
}

func TestRightlyOver(t *testing.T) {
	runs := &runtime.PodStatus{Containers: []runtime.ContainerStatus{{Name: "c", State: runtime.StateRunning}}}
	never, always := Pod("p", Container("c"), RestartPolicy(v1.RestartPolicyNever)), Pod("p", Container("c"))
	failed := &v1.PodStatus{Phase: v1.PodFailed}
	require.NoError(t, rightlyOver(never, failed, &runtime.PodStatus{}))
	require.NoError(t, rightlyOver(always, &v1.PodStatus{Phase: v1.PodFailed, Reason: "OutOfcpu"}, &runtime.PodStatus{}))
	require.ErrorContains(t, rightlyOver(never, failed, runs), "it is Failed, and container c is running")
	require.ErrorContains(t, rightlyOver(always, failed, &runtime.PodStatus{}), "its restart policy is Always")
}

func TestTruthful(t *testing.T) {
	id := runtime.ContainerID{Runtime: "fake", ID: "a"}
	runs := &runtime.PodStatus{Containers: []runtime.ContainerStatus{{Name: "c", ID: id, State: runtime.StateRunning}}}
	status := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", ContainerID: id.String(), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}}
	require.NoError(t, truthful(status, runs))
	require.ErrorContains(t, truthful(status, &runtime.PodStatus{}), "container c is published as running in fake://a, which does not")
	require.ErrorContains(t, truthful(&v1.PodStatus{}, runs), "fake://a runs, and is not published as running")
}

// Tests of end: nothing is left.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := playing(t, "apply p volume=v", "bind q")
		require.NoError(t, p.end())
		require.NoError(t, os.MkdirAll(filepath.Join(p.root, "logs"), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(p.root, "logs", "forgotten"), nil, 0o600))
		require.ErrorContains(t, p.end(), "logs/forgotten is left")
		require.NoError(t, os.Remove(filepath.Join(p.root, "logs", "forgotten")))

		p.run(t, "bind r", "sleep 1m", "fault stays op=RemoveSandbox err")
		p.faults = nil // end cannot take it away
		err := p.end()
		require.ErrorContains(t, err, "nobody wants r (uid-r), and the runtime still has it")
	})
}
