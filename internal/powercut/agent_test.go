// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package powercut_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/powercut"
)

var (
	imagesFlag = flag.Int("images", 0, "on how many images of a disk the node agent is restarted; 0 means 30, fewer where that takes long")
	seedFlag   = flag.Uint64("seed", 0, "of the random choices; 0 means another one each time")
)

// lab is a node whose agent is recorded once and restarted on many images of its disk.
type lab struct {
	*testing.T
	// agent is the program, root its --root-dir, pods the folder of manifests.
	agent, root, pods string
	// mark appears in the arguments of all containers of the lab.
	mark   string
	output string
	// ops are the operations of the recorded agent, wants the configured containers with their start times.
	ops   []powercut.Op
	wants []want
}

// want is a set of manifests, which is configured from an operation on.
type want struct {
	from int
	pods map[string]int // name -> generation
}

func newLab(t *testing.T) *lab {
	if os.Geteuid() != 0 {
		t.Skip("only root gives a program another boot ID")
	}
	top := t.TempDir()
	l := &lab{T: t, agent: filepath.Join(top, "nodeagent"), root: filepath.Join(top, "root"), pods: filepath.Join(top, "pods"),
		output: filepath.Join(top, "output"), mark: fmt.Sprintf("powercut-%d", os.Getpid())}
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", l.agent, "github.com/keelson-dev/keelson/examples/nodeagent")
	text, err := build.CombinedOutput()
	require.NoError(t, err, "go build: %s", text)
	for _, dir := range []string{l.root, l.pods} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	return l
}

// container is how a container of a pod is called in the list of processes.
func (l *lab) container(pod string, generation int) string {
	return fmt.Sprintf("%s-%s-%d.", l.mark, pod, generation)
}

// configure writes the manifests of pods.
func (l *lab) configure(pods map[string]int) {
	l.Helper()
	old, err := filepath.Glob(filepath.Join(l.pods, "*.yaml"))
	require.NoError(l, err)
	for _, file := range old {
		if _, ok := pods[strings.TrimSuffix(filepath.Base(file), ".yaml")]; !ok {
			require.NoError(l, os.Remove(file))
		}
	}
	for name, generation := range pods {
		manifest := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: data, emptyDir: {}}, {name: info, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]
  containers:
  - name: main
    image: none
    command: [sh, -c, "while :; do sleep 1000; done", %q]
    env: [{name: TOKEN, value: %s}]
    volumeMounts: [{name: data, mountPath: /data}, {name: info, mountPath: /info}]
`, name, l.container(name, generation), canary)
		file := filepath.Join(l.pods, name+".yaml")
		require.NoError(l, os.WriteFile(file+".part", []byte(manifest), 0o600))
		require.NoError(l, os.Rename(file+".part", file))
	}
}

// args returns the arguments of the agent.
func (l *lab) args() []string {
	return []string{l.pods, "--root-dir", l.root, "--read-only-port", "0", "--hostname-override", "n", "--lenient", "--keep-pods"}
}

// running returns the processes of each container. A shell that has just forked counts as two processes: the child has
// the shell's arguments, too, until exec.
func (l *lab) running() map[string][]int {
	found := map[string][]int{}
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(l, err)
	for _, file := range all {
		data, err := os.ReadFile(file)
		args := strings.Split(string(data), "\x00")
		if err != nil || len(args) < 4 || filepath.Base(args[0]) != "sh" || !strings.HasPrefix(args[3], l.mark+"-") {
			continue
		}
		pid := 0
		_, _ = fmt.Sscanf(file, "/proc/%d/", &pid)
		found[args[3]] = append(found[args[3]], pid)
	}
	for c, pids := range found {
		found[c] = slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return slices.Contains(pids, parentOf(pid)) })
	}
	return found
}

func parentOf(pid int) (parent int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := strings.Cut(string(status), "\nPPid:"); ok {
		_, _ = fmt.Sscan(rest, &parent)
	}
	return parent
}

// state compares the running containers with the configured containers.
func (l *lab) state(pods map[string]int) error {
	found := l.running()
	var errs []error
	for name, generation := range pods {
		c := l.container(name, generation)
		if n := len(found[c]); n != 1 {
			errs = append(errs, fmt.Errorf("%s has %d processes", c, n))
		}
		delete(found, c)
	}
	for _, c := range slices.Sorted(maps.Keys(found)) {
		errs = append(errs, fmt.Errorf("%s is not configured and has %d processes", c, len(found[c])))
	}
	return errors.Join(errs...)
}

// patience is the time limit of an agent for each change.
const patience = 30 * time.Second

// await waits until the running containers equal the configured containers.
func (l *lab) await(pods map[string]int) error {
	deadline := time.Now().Add(patience)
	for {
		err := l.state(pods)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// record runs an agent through the changes of its pods, and logs its operations on the disk.
func (l *lab) record() {
	l.Helper()
	recorder, err := newRecorder(l.root)
	require.NoError(l, err)
	output, err := os.Create(l.output)
	require.NoError(l, err)
	defer output.Close()
	tr := &tracer{recorder: recorder}
	started, ended := make(chan struct{}), make(chan error, 1)
	l.configure(nil)
	// Mounts below the root must disappear with the processes, as in a power cut.
	args := append([]string{"-m", "--propagation", "private", l.agent}, l.args()...)
	go func() { ended <- tr.run("/usr/bin/unshare", args, os.Environ(), output, func(int) { close(started) }) }()
	select {
	case <-started:
	case err := <-ended:
		traced(l.T, err)
	}
	l.wants = []want{{}}
	for _, pods := range []map[string]int{
		{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"b": 1, "c": 1}, {"b": 1, "c": 1, "d": 1}, {"c": 2}, {},
	} {
		l.wants = append(l.wants, want{recorder.position(), pods})
		l.configure(pods)
		if err := l.await(pods); err != nil {
			tr.kill()
			l.Fatalf("the recorded agent: %v\n%s", err, l.said())
		}
		for _, pid := range l.running()[l.container("a", 1)] { // it ends by itself; once, for there is a back-off
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(100 * time.Millisecond)
		if err := l.await(pods); err != nil {
			tr.kill()
			l.Fatalf("the recorded agent: %v\n%s", err, l.said())
		}
	}
	tr.kill()
	require.NoError(l, <-ended)
	l.ops = recorder.log()
	require.Empty(l, recorder.lost)
	require.Greater(l, len(l.ops), 200)
}

// startedOnce checks the agent's events: the agent started each pod once, in at most one new sandbox.
func (l *lab) startedOnce(pods map[string]int) error {
	data, err := os.ReadFile(l.output)
	require.NoError(l, err)
	counts := map[[2]string]int{}
	for line := range strings.Lines(string(data)) {
		var event struct{ Msg, Pod, Reason string }
		if json.Unmarshal([]byte(line), &event) == nil && event.Msg == "event" {
			counts[[2]string{event.Pod, event.Reason}]++
		}
	}
	var errs []error
	for name := range pods {
		pod := "default/" + name + "-n"
		started, replaced := counts[[2]string{pod, "Started"}], counts[[2]string{pod, "SandboxChanged"}]
		if started != 1 || replaced > 1 {
			errs = append(errs, fmt.Errorf("%s was started %d times and got %d new sandboxes", pod, started, replaced))
		}
	}
	return errors.Join(errs...)
}

func (l *lab) said() string {
	data, _ := os.ReadFile(l.output)
	return string(data[max(0, len(data)-8000):])
}

// try restarts an agent on the image of a disk after n operations.
func (l *lab) try(n int, loss powercut.Loss, random *rand.Rand) error {
	l.Helper()
	require.NoError(l, os.RemoveAll(l.root))
	require.NoError(l, os.Mkdir(l.root, 0o755))
	require.NoError(l, powercut.Image(l.ops[:n], loss, random).Store(l.root))
	pods := map[string]int{}
	for _, w := range l.wants {
		if w.from <= n {
			pods = w.pods
		}
	}
	l.configure(pods)
	stop, err := l.reboot()
	require.NoError(l, err)
	defer stop()
	if err := l.await(pods); err != nil {
		return fmt.Errorf("lost or wedged: %w", err)
	}
	for deadline := time.Now().Add(patience); l.startedOnce(pods) != nil && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // the container runs before the agent says so
	}
	for range 20 {
		if err := errors.Join(l.state(pods), l.startedOnce(pods)); err != nil {
			return fmt.Errorf("doubled: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.configure(nil)
	if err := l.await(nil); err != nil {
		return fmt.Errorf("not removed: %w", err)
	}
	return l.swept()
}

// reboot starts the agent as after a boot of the machine.
func (l *lab) reboot() (stop func(), err error) {
	boot := l.output + ".boot"
	id := fmt.Sprintf("%08x-0000-4000-8000-000000000000\n", rand.Uint32())
	if err := os.WriteFile(boot, []byte(id), 0o644); err != nil {
		return nil, err
	}
	script := `mount --make-rprivate / && mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`
	cmd := exec.Command("sh", append([]string{"-c", script, boot, l.agent}, l.args()...)...)
	output, err := os.Create(l.output)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for _, pids := range l.running() {
			for _, pid := range pids {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		deadline := time.Now().Add(patience)
		for len(l.running()) > 0 && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
	}, nil
}

// swept waits until no folder of a pod is left, of its volumes or of the process backend.
func (l *lab) swept() error {
	deadline := time.Now().Add(patience)
	for {
		var left []string
		for _, folder := range []string{"pods", "process"} {
			found, _ := filepath.Glob(filepath.Join(l.root, folder, "*"))
			left = append(left, found...)
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("left: %v", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A run by default is over after so many images, or so much time, but not before so few images.
const (
	defaultImages, fewestImages = 30, 6
	defaultTime                 = 12 * time.Second
)

// TestPowerCuts cuts the power of a node at random operations: each configured pod runs again, once, and nothing is
// left of other pods.
func TestPowerCuts(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	l := newLab(t)
	l.record()
	t.Logf("%d operations; -seed %d", len(l.ops), seed)
	random := rand.New(rand.NewPCG(seed, 0))
	images, limit := *imagesFlag, time.Duration(math.MaxInt64)
	if images == 0 {
		images, limit = defaultImages, defaultTime
	}
	tried, bad, began := 0, 0, time.Now()
	report := func() {
		t.Logf("%d of %d images tried in %v, %d bad; -seed %d", tried, images, time.Since(began).Round(time.Second), bad, seed)
	}
	t.Cleanup(report)
	for i := range images {
		if i%50 == 0 && i > 0 {
			report() // an interrupted run reports its progress
		}
		if i >= fewestImages && time.Since(began) > limit {
			break // no more time
		}
		n, loss := random.IntN(len(l.ops)+1), powercut.Loss(i%int(powercut.Losses))
		inner := rand.New(rand.NewPCG(random.Uint64(), 0))
		err := l.try(n, loss, inner)
		tried++
		if err != nil {
			bad++
			t.Errorf("image %d, after %d of %d operations, loss %d: %v\nthe last operations: %+v\nthe agent said:\n%s",
				i, n, len(l.ops), loss, err, l.ops[max(0, n-5):n], l.said())
			if bad > 3 {
				t.Fatal("no more images are tried")
			}
		}
	}
}
