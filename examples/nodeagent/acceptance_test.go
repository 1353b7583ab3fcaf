// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
)

const forever = "while true; do sleep 1; done"

func TestTheExamplesRunAndNothingIsLeft(t *testing.T) { onEach(t, checkTheExamplesRunAndNothingIsLeft) }

func checkTheExamplesRunAndNothingIsLeft(s *station) {
	examples, err := filepath.Glob("../manifests/*.yaml")
	require.NoError(s, err)
	require.Len(s, examples, 4)
	for _, path := range examples {
		data, err := os.ReadFile(path)
		require.NoError(s, err)
		s.write(filepath.Base(path), string(data))
	}
	s.start()
	for name, phase := range map[string]v1.PodPhase{
		"clock-n": v1.PodRunning, "greeter-n": v1.PodRunning, "job-n": v1.PodSucceeded, "moody-n": v1.PodRunning,
	} {
		s.waitPhase(name, phase)
	}
	require.EqualValues(s, 1, s.pods()["job-n"].Status.ContainerStatuses[0].RestartCount, "the job needs two tries")
	s.eventually("the greeter has greeted", func() bool {
		logs, _ := filepath.Glob(filepath.Join(s.root, "logs", "default_greeter-n_*", "greeter", "0.log"))
		if len(logs) != 1 {
			return false
		}
		text, err := os.ReadFile(logs[0])
		require.NoError(s, err)
		return strings.Contains(string(text), " stdout F Hello, world\n") // the CRI's format
	})
	require.NotZero(s, s.backend.left(s))
	s.interrupt()
	s.eventually("nothing is left running", func() bool { return s.backend.left(s) == 0 })
}

func TestEditingAndRemovingManifests(t *testing.T) { onEach(t, checkEditingAndRemovingManifests) }

func checkEditingAndRemovingManifests(s *station) {
	s.start()
	manifest, pids := s.service("web", "trap 'echo bye; exit 0' TERM; while true; do sleep 0.1; done")
	s.write("web.yaml", manifest)
	first := s.waitStarts(pids, 1)[0]
	s.waitPhase("web-n", v1.PodRunning)
	uid := s.pods()["web-n"].UID

	s.Log("an edit stops the old pod gracefully, then starts the new one")
	s.write("web.yaml", strings.Replace(manifest, "bye", "good night", 1))
	second := s.waitStarts(pids, 2)[1]
	require.False(s, alive(first))
	s.waitPhase("web-n", v1.PodRunning)
	require.NotEqual(s, uid, s.pods()["web-n"].UID)

	s.Log("a removal ends it")
	s.remove("web.yaml")
	s.eventually("the pod is gone", func() bool { return len(s.pods()) == 0 && !alive(second) })
	s.eventually("its records and logs are gone", func() bool {
		left, _ := filepath.Glob(filepath.Join(s.root, "*", "*web*"))
		return len(left) == 0 && s.backend.left(s) == 0
	})
	require.Len(s, s.started(pids), 2)
}

// An editor's way of saving a file never disturbs a healthy pod, unless the manifest's content
// changes.
func TestEditorsNeverKillAHealthyPod(t *testing.T) { onEach(t, checkEditorsNeverKillAHealthyPod) }

func checkEditorsNeverKillAHealthyPod(s *station) {
	s.start()
	manifest, pids := s.service("web", forever)
	s.write("web.yaml", manifest)
	pid := s.waitStarts(pids, 1)[0]
	path := filepath.Join(s.manifests, "web.yaml")
	shell := func(script string) {
		out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
		require.NoError(s, err, string(out))
	}
	habits := map[string]func(){
		"sed -i that changes nothing": func() { shell("sed -i s/nothing/nothing/ " + path) },
		"mv over it":                  func() { shell(fmt.Sprintf("cp %s %s/.new && mv %s/.new %s", path, s.manifests, s.manifests, path)) },
		"half-written, then whole": func() {
			s.write("web.yaml", manifest[:len(manifest)/2])
			time.Sleep(400 * time.Millisecond)
			s.write("web.yaml", manifest)
		},
		"empty for a while": func() {
			s.write("web.yaml", "")
			time.Sleep(400 * time.Millisecond)
			s.write("web.yaml", manifest)
		},
		"backup beside it, as vim's": func() {
			shell(fmt.Sprintf("cp %s %s~; mv %s %s.bak && cp %s.bak %s; rm %s.bak %s~", path, path, path, path, path, path, path, path))
		},
		"chmod away and back": func() { shell(fmt.Sprintf("chmod 000 %s; sleep 0.3; chmod 644 %s", path, path)) },
	}
	if vim, err := exec.LookPath("vim"); err == nil {
		habits["vim :wq"] = func() { shell(vim + " -es -u NONE -c 'set backup writebackup' -c wq " + path) }
	}
	for name, habit := range habits {
		habit()
		time.Sleep(500 * time.Millisecond)
		require.True(s, alive(pid), name)
		require.Equal(s, []int{pid}, s.started(pids), name)
	}
	s.waitPhase("web-n", v1.PodRunning)
}

func TestKilledContainerRestartsAtOnceThenBacksOff(t *testing.T) {
	onEach(t, checkKilledContainerRestartsAtOnceThenBacksOff)
}

func checkKilledContainerRestartsAtOnceThenBacksOff(s *station) {
	s.start()
	manifest, pids := s.service("web", forever)
	s.write("web.yaml", manifest)
	first := s.waitStarts(pids, 1)[0]
	require.NoError(s, syscall.Kill(first, syscall.SIGKILL))
	second := s.waitStarts(pids, 2)[1]
	s.waitPhase("web-n", v1.PodRunning)
	require.NoError(s, syscall.Kill(second, syscall.SIGKILL))

	var waiting *v1.ContainerStateWaiting
	s.eventually("CrashLoopBackOff is shown", func() bool {
		st := s.pods()["web-n"].Status
		if len(st.ContainerStatuses) != 1 {
			return false
		}
		waiting = st.ContainerStatuses[0].State.Waiting
		return waiting != nil && waiting.Reason == "CrashLoopBackOff"
	})
	_, text, ok := strings.Cut(waiting.Message, "next try at ")
	require.True(s, ok, waiting.Message)
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(s, err)
	status := s.pods()["web-n"].Status.ContainerStatuses[0]
	require.EqualValues(s, 137, status.LastTerminationState.Terminated.ExitCode)
	ended := status.LastTerminationState.Terminated.FinishedAt.Time
	require.WithinDuration(s, ended.Add(10*time.Second), at, time.Second)
	s.waitStarts(pids, 3)
	require.EqualValues(s, 2, s.waitPhase("web-n", v1.PodRunning).Status.ContainerStatuses[0].RestartCount)
}

// The agent is killed ten times, or four times under the race detector, also during starts. Running containers go on, exit codes are
// reported correctly, and no container runs twice.
func TestKill9OfTheAgent(t *testing.T) { onEach(t, checkKill9OfTheAgent) }

func checkKill9OfTheAgent(s *station) {
	steady, steadyPIDs := s.service("steady", forever)
	s.write("steady.yaml", steady)
	s.start()
	pid := s.waitStarts(steadyPIDs, 1)[0]
	crashed, crashedPIDs := s.service("crashed", forever)
	s.write("crashed.yaml", crashed)
	first := s.waitStarts(crashedPIDs, 1)[0]
	s.waitPhase("crashed-n", v1.PodRunning)

	seed := uint64(time.Now().UnixNano())
	s.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var late []string
	rounds := 10
	if casetest.Raced {
		rounds = 4
	}
	for round := range rounds {
		name := fmt.Sprintf("late%d", round)
		manifest, pids := s.service(name, forever)
		s.write(name+".yaml", manifest)
		late = append(late, pids)
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		s.kill()
		if round == 0 {
			require.NoError(s, syscall.Kill(first, syscall.SIGTERM))
			s.eventually("it is dead", func() bool { return !alive(first) })
		}
		require.True(s, alive(pid), "round %d: what runs goes on without an agent", round)
		s.start()
	}
	for round, pids := range late {
		s.waitPhase(fmt.Sprintf("late%d-n", round), v1.PodRunning)
		began := s.waitStarts(pids, 1)
		if s.backend.exact {
			require.Len(s, began, 1, "round %d: started exactly once", round)
		}
		// containerd kills a container if its client dies during the start.
		for _, earlier := range began[:len(began)-1] {
			require.False(s, alive(earlier), "round %d: never two at a time", round)
		}
		require.True(s, alive(began[len(began)-1]))
	}
	require.Equal(s, []int{pid}, s.started(steadyPIDs), "never restarted")
	require.Zero(s, s.waitPhase("steady-n", v1.PodRunning).Status.ContainerStatuses[0].RestartCount)
	begun := s.waitStarts(crashedPIDs, 2)
	if s.backend.exact {
		require.Len(s, begun, 2)
	}
	for _, earlier := range begun[:len(begun)-1] {
		require.False(s, alive(earlier), "never two at a time")
	}
	restarted := s.waitPhase("crashed-n", v1.PodRunning).Status.ContainerStatuses[0]
	// containerd aborts a start if its client dies. The aborted start may count.
	require.GreaterOrEqual(s, restarted.RestartCount, int32(1))
	if s.backend.exact {
		require.EqualValues(s, 1, restarted.RestartCount)
	} else if restarted.RestartCount > 1 {
		return // the last end is that of an aborted start
	}
	require.EqualValues(s, 143, restarted.LastTerminationState.Terminated.ExitCode, "its true exit code")
}

func TestKeepPodsLeavesThemToTheNextAgent(t *testing.T) {
	onEach(t, checkKeepPodsLeavesThemToTheNextAgent)
}

func checkKeepPodsLeavesThemToTheNextAgent(s *station) {
	manifest, pids := s.service("web", forever)
	s.write("web.yaml", manifest)
	s.start("--keep-pods=true")
	pid := s.waitStarts(pids, 1)[0]
	s.waitPhase("web-n", v1.PodRunning)
	s.interrupt()
	require.True(s, alive(pid))
	s.start()
	s.waitPhase("web-n", v1.PodRunning)
	require.Equal(s, []int{pid}, s.started(pids))
	s.interrupt()
	require.False(s, alive(pid))
}

// Each invalid file gets a single log line with its name and the error. A valid file in the same
// folder is not affected.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	good, pids := s.service("good", forever)
	s.write("good.yaml", good)
	s.start()
	pid := s.waitStarts(pids, 1)[0]
	bad := map[string]struct {
		make func(path string) error
		why  string
	}{
		"a-unknown-field.yaml": {writer(strings.Replace(good, "spec:", "spek:", 1)), `spek`},
		"b-wrong-type.yaml":    {writer(strings.Replace(good, "terminationGracePeriodSeconds: 2", "terminationGracePeriodSeconds: soon", 1)), "terminationGracePeriodSeconds"},
		"c-two-documents.yaml": {writer(good + "---\n" + good), "document"},
		"h-duplicate.yaml":     {writer(good), "good.yaml"},
		"d-large.yaml":         {writer(good + "# " + strings.Repeat("x", 10<<20)), "too large"},
		"e-folder.yaml":        {func(p string) error { return os.Mkdir(p, 0o755) }, "directory"},
		"f-fifo.yaml":          {func(p string) error { return syscall.Mkfifo(p, 0o644) }, "named pipe"},
		"g-loop.yaml":          {func(p string) error { return os.Symlink(filepath.Base(p), p) }, "symbolic links"},
		"i-climbing.yaml":      {writer(strings.Replace(good, "name: good", "name: ../../good", 1)), "metadata.name"},
		"j-binary.yaml":        {writer("\x7fELF\x02\x01\x01\x00\x00\xff\xfe"), "text"},
	}
	for name, b := range bad {
		require.NoError(t, b.make(filepath.Join(s.manifests, name)), name)
	}
	for name, b := range bad {
		about := func() []string { // a busy machine may be told to be a file system that does not answer, for a while
			return slices.DeleteFunc(s.log.about("manifest not used", "/"+name+`"`), func(line string) bool {
				return strings.Contains(line, "does not answer")
			})
		}
		s.eventually(name+" is named in the log", func() bool { return len(about()) > 0 })
		lines := about()
		require.Len(t, lines, 1, name)
		require.Contains(t, lines[0], b.why, name)
		require.Less(t, len(lines[0]), 600, name)
	}
	time.Sleep(time.Second)
	require.Equal(t, []int{pid}, s.started(pids))
	require.True(t, alive(pid))
	require.Len(t, s.pods(), 1)
	require.NotContains(t, s.log.String(), pids, "what a manifest says is not repeated in the log")
}

func writer(content string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(content), 0o644) }
}

func TestTheCommandLineSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	run := func(args ...string) (string, error) {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), asAgent+"=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for want, args := range map[string][]string{
		"which manifests?":                  {},
		"does not exist":                    {filepath.Join(s.dir, "nothing")},
		"unknown flag: --nope (see --help)": {"--nope"},
		"unknown flag: --rootdir: did you mean --root-dir? (see --help)":                   {"--rootdir", "/x"},
		"unknown flag: --manifests: did you mean --pod-manifest-path, --manifest-url, --m": {"--manifests", s.manifests},
		"one PATH at most":        {"a", "b"},
		"--read-only-port 70000":  {s.manifests, "--read-only-port", "70000"},
		"want \"process\" or":     {s.manifests, "--container-runtime-endpoint", "docker"},
		"--hostname-override":     {s.manifests, "--root-dir", s.root, "--hostname-override", "not_a_name"},
		"PATH is a and --pod-man": {"a", "--pod-manifest-path", "b"},
	} {
		out, err := run(args...)
		require.Error(t, err, want)
		require.Contains(t, out, want)
		require.Equal(t, 1, strings.Count(out, "\n"), "one line: %s", out)
	}
	out, err := run("--help")
	require.NoError(t, err)
	for _, flag := range []string{"--pod-manifest-path", "--container-runtime-endpoint", "--root-dir", "--hostname-override", "--address", "--read-only-port", "--keep-pods", "-v, --v"} {
		require.Contains(t, out, flag)
	}
	require.NotRegexp(t, `default (\[\])?\)`, out)
	require.NotRegexp(t, `stringTo|\bstrings\b`, out, "the types of Go say nothing to who starts a program")

	s.start()
	out, err = run(s.manifests, "--root-dir", s.root, "--read-only-port", "0")
	require.Error(t, err)
	require.Contains(t, out, "--root-dir: lock Root "+s.root+": the folder is in use by another agent (process "+fmt.Sprint(s.agent.Process.Pid)+"): stop that agent, or choose another folder")
	out, err = run(s.manifests, "--root-dir", s.root+"2", "--read-only-port", fmt.Sprint(s.port))
	require.Error(t, err)
	require.Contains(t, out, "address already in use")
}

// A closed terminal ends the agent and its pods, as Ctrl-C does.
func TestAClosedTerminalStopsThePods(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("under nohup, which the agent inherits: its pods are to survive the terminal")
	}
	s := newStation(t, backends["process"])
	manifest, pids := s.service("web", forever)
	s.write("web.yaml", manifest)
	s.start()
	pid := s.waitStarts(pids, 1)[0]
	agent := s.agent
	s.agent = nil
	require.NoError(t, agent.Process.Signal(syscall.SIGHUP))
	require.NoError(t, agent.Wait())
	require.False(t, alive(pid))
}

// An error before the first container is logged once and shown.
func TestAFailingSyncIsLoggedOnceAndShown(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	s.start()
	require.NoError(t, os.WriteFile(filepath.Join(s.root, "pods"), nil, 0o600)) // where volumes go
	manifest, _ := s.service("web", forever)
	const unmounted = "unmounted volumes=[v]"
	s.write("web.yaml", strings.Replace(manifest, "spec:", "spec:\n  volumes: [{name: v, emptyDir: {}}]", 1)+"      volumeMounts: [{name: v, mountPath: /v}]\n")
	s.eventually("the log says so", func() bool { return len(s.log.about("pod sync failed", unmounted)) > 0 })
	s.eventually("/pods says so", func() bool {
		statuses := s.pods()["web-n"].Status.ContainerStatuses
		return len(statuses) == 1 && statuses[0].State.Waiting != nil && strings.Contains(statuses[0].State.Waiting.Message, unmounted)
	})
	require.Len(t, s.log.about("pod sync failed", unmounted), 1)
	require.NoError(t, os.Remove(filepath.Join(s.root, "pods")))
	s.waitPhase("web-n", v1.PodRunning)
}

// A killed agent releases its lock shortly before its port. The next agent waits for both.
func TestAPortThatIsFreeInAMoment(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	require.NoError(t, err)
	freed := time.AfterFunc(700*time.Millisecond, func() { _ = l.Close() })
	defer freed.Stop()
	s.start()
}
