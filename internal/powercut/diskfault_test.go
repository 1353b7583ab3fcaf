// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package powercut_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
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
)

var faultsFlag = flag.Int("faults", 0, "under how many disk faults the node agent runs; 0 means a few")

// canary is a value of an environment that must not be told.
const canary = "canary-8151c2d6"

// trial is one life of an agent whose disk has a fault for a while.
type trial struct {
	*lab
	faults *faults
	tracer *tracer
	ended  chan struct{} // closed when the agent has
	// doubled are containers seen with two processes.
	doubled map[string]bool
	// restarts says that the agent ended because of the fault, and was started again.
	restarts int
	stop     []func()
}

// begin starts the agent with a faulty disk.
func (tl *trial) begin() {
	recorder, err := newRecorder(tl.root)
	require.NoError(tl, err)
	tl.faults.recorder = recorder
	output, err := os.Create(tl.output)
	require.NoError(tl, err)
	tl.tracer = &tracer{recorder: recorder, faults: tl.faults}
	started, done := make(chan struct{}), make(chan error, 1)
	tl.ended = make(chan struct{})
	go func() {
		defer output.Close()
		done <- tl.tracer.run(tl.agent, tl.args(), os.Environ(), output, func(pid int) { tl.tracer.watch(pid, tl.ended); close(started) })
	}()
	tl.stop = append(tl.stop, func() { tl.tracer.kill(); <-done })
	select {
	case <-started:
	case err := <-done:
		traced(tl.T, err)
	}
}

// agentEnded handles the end of an agent: the agent must have logged a reason, and is restarted, as by a supervisor.
func (tl *trial) agentEnded() error {
	tl.restarts++
	if !strings.Contains(strings.ToLower(tl.said()), unix.ErrnoName(tl.faults.errno)) && !strings.Contains(tl.said(), tl.faults.errno.Error()) {
		return errors.New("the agent ended and did not say why")
	}
	return tl.restart()
}

// restart starts an agent without faults.
func (tl *trial) restart() error {
	output, err := os.OpenFile(tl.output, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(tl.agent, tl.args()...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = output, output, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	tl.ended = ended
	tl.stop = append(tl.stop, func() { _ = cmd.Process.Kill(); <-ended })
	go func() { _ = cmd.Wait(); close(ended) }()
	return nil
}

// reach waits until the running containers equal the configured containers.
func (tl *trial) reach(pods map[string]int) error {
	for deadline := time.Now().Add(patience); ; {
		select {
		case <-tl.ended:
			if tl.restarts > 0 {
				return errors.New("the agent ended again")
			}
			if err := tl.agentEnded(); err != nil {
				return err
			}
		default:
		}
		for c, pids := range tl.running() {
			if len(pids) > 1 {
				tl.doubled[c] = true
			}
		}
		err := tl.state(pods)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// live lets the agent create, change and remove pods. Then another agent takes over and removes the other pods.
func (tl *trial) live() error {
	last := map[string]int{"a": 2, "c": 1}
	for _, pods := range []map[string]int{{"a": 1, "b": 1}, {"a": 2, "b": 1}, last} {
		tl.configure(pods)
		if err := tl.reach(pods); err != nil {
			return fmt.Errorf("lost or wedged: %w", err)
		}
	}
	before := tl.running()
	if err := tl.takeOver(); err != nil {
		return err
	}
	if err := tl.reach(last); err != nil {
		return fmt.Errorf("lost or wedged by the next agent: %w", err)
	}
	time.Sleep(500 * time.Millisecond) // for a restart, which would be wrong
	if after := tl.running(); !maps.EqualFunc(before, after, slices.Equal) {
		return fmt.Errorf("the next agent restarted containers: %v, before %v", after, before)
	}
	if len(tl.doubled) > 0 {
		return fmt.Errorf("doubled: %v", tl.doubled)
	}
	tl.configure(nil)
	if err := errors.Join(tl.reach(nil), tl.swept()); err != nil {
		return fmt.Errorf("not removed: %w", err)
	}
	if strings.Contains(tl.said(), canary) {
		return errors.New("a value of an environment was told")
	}
	return nil
}

// takeOver kills the agent and starts the next agent.
func (tl *trial) takeOver() error {
	select {
	case <-tl.ended:
	default:
		for _, pid := range tl.agents() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		<-tl.ended
	}
	return tl.restart()
}

// agents are the processes of the agent's program, without shims.
func (tl *trial) agents() (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(tl, err)
	for _, file := range all {
		data, err := os.ReadFile(file)
		pid := 0
		if _, scanErr := fmt.Sscanf(file, "/proc/%d/", &pid); err == nil && scanErr == nil && strings.HasPrefix(string(data), tl.agent+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// end kills all processes of the trial, and unmounts its volumes.
func (tl *trial) end() {
	for _, stop := range slices.Backward(tl.stop) {
		stop()
	}
	for _, pids := range tl.running() {
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(tl, err)
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], tl.root+"/") {
			_ = unix.Unmount(fields[4], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	}
}

// runTrial lets an agent live on a new disk with a fault.
func (l *lab) runTrial(f *faults) error {
	require.NoError(l, os.RemoveAll(l.root))
	require.NoError(l, os.Mkdir(l.root, 0o755))
	l.configure(nil)
	tl := &trial{lab: l, faults: f, doubled: map[string]bool{}}
	defer tl.end()
	tl.begin()
	return tl.live()
}

// fewestFaults is how many faults a run by default has.
const fewestFaults = 2

// TestDiskFaults makes the disk of a node fail for a while: writes, new names, renames, removals, syncs and opens end
// with ENOSPC, EIO or EROFS. Afterwards each configured pod runs, once, also with another agent, and nothing is left of
// other pods. An agent that ends logs the reason.
func TestDiskFaults(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	random := rand.New(rand.NewPCG(seed, 1))
	l := newLab(t)
	whole := &faults{at: 1 << 30, errno: unix.EIO}
	require.NoError(t, l.runTrial(whole), "without a fault; the agent said:\n%s", l.said())
	require.Greater(t, whole.pointsOf(unix.ENOSPC), 100)
	t.Logf("%d calls can fail; -seed %d", whole.pointsOf(unix.EIO), seed)
	tried, bad, silent := 0, 0, 0
	report := func() {
		t.Logf("%d faults tried, %d of them struck nothing, %d bad; -seed %d", tried, silent, bad, seed)
	}
	t.Cleanup(report)
	count := *faultsFlag
	if count == 0 {
		count = fewestFaults
	}
	for i := range count {
		errno := []syscall.Errno{unix.ENOSPC, unix.EIO, unix.EROFS}[i%3]
		f := &faults{at: random.IntN(whole.pointsOf(errno)), count: []int{1, 5, 40}[random.IntN(3)], errno: errno}
		err := l.runTrial(f)
		tried++
		struck := f.seen()
		if len(struck) == 0 {
			silent++
		}
		if err != nil {
			bad++
			t.Errorf("fault %d: %s of calls %d to %d: %v\nit struck: %s\nthe agent said:\n%s", i, unix.ErrnoName(f.errno), f.at, f.at+f.count-1, err,
				strings.Join(struck, "\n  "), l.said())
			if bad > 5 {
				t.Fatal("no more faults are tried")
			}
		}
		if i%25 == 24 {
			report() // an interrupted run reports its progress
		}
	}
}
