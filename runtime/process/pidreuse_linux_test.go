// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// reuseEnv makes the test binary process 1 of a PID namespace, where it forces so many
// reuses of PIDs.
const reuseEnv = "PROCESS_TEST_REUSE"

// TestForcedPIDReuse: every PID that the records of a container name belongs to a
// stranger by now, as a process, a session or a process group. No stranger is killed.
// PROCESS_TEST_REUSES is how many rounds of two PIDs there are, 40 by default.
func TestForcedPIDReuse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("PIDs can be chosen by root only, in a PID namespace of the test's own (/proc/sys/kernel/ns_last_pid)")
	}
	n := os.Getenv("PROCESS_TEST_REUSES")
	if n == "" {
		n = "40"
	}
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), reuseEnv+"="+n, "TMPDIR="+t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "SKIP") {
		t.Skipf("%s", out)
	}
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

// reusePIDs runs in the PID namespace and never returns.
func reusePIDs() {
	n, err := strconv.Atoi(os.Getenv(reuseEnv))
	if err != nil {
		return
	}
	err = unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", 0, "")
	}
	if err == nil {
		err = setLastPID(1000)
	}
	if err != nil {
		fmt.Println("SKIP: PIDs cannot be chosen here:", err)
		os.Exit(0)
	}
	killed, forced := 0, 0
	for i := 0; i < n && err == nil; i++ {
		var strangers []*stranger
		strangers, err = reuseOnce(i)
		if errors.Is(err, errTaken) {
			err = nil
		}
		for _, s := range strangers {
			forced++
			if !s.alive() {
				killed++
				fmt.Printf("round %d: the stranger with PID %d (%s) was killed\n", i, s.pid, s.as)
			}
			s.end()
		}
	}
	fmt.Printf("%d PIDs reused, %d strangers killed; %v\n", forced, killed, err)
	if killed > 0 || err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func setLastPID(pid int) error {
	return os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid)), 0)
}

// stranger is a process that the backend has nothing to do with.
type stranger struct {
	pid    int
	as     string
	handle *proc.Handle
}

func (s *stranger) alive() bool {
	info, err := proc.Lookup(s.pid)
	return err == nil && !info.Zombie && s.handle.Signal(0) == nil
}

func (s *stranger) end() {
	_ = s.handle.Signal(unix.SIGKILL)
	_ = s.handle.Wait(context.Background())
	s.handle.Close()
	for { // process 1 reaps all, zombies of daemons included
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}

// daemonAt makes a process whose session and group have the number pid, and whose session leader
// has ended: the look-up of pid fails.
func daemonAt(pid int) (*stranger, error) {
	return strangerAt(pid, "session", "sleep 1000 & echo $!")
}

// leaderAt makes a session's leader with that PID.
func leaderAt(pid int) (*stranger, error) {
	return strangerAt(pid, "process", "echo $$; exec sleep 1000")
}

func strangerAt(pid int, as, script string) (*stranger, error) {
	for range 50 { // a thread of this program may take the number
		if err := setLastPID(pid - 1); err != nil {
			return nil, err
		}
		c := exec.Command("/bin/sh", "-c", script)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		hear, say, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		c.Stdout = say
		err = c.Start()
		_ = say.Close()
		if err != nil {
			return nil, err
		}
		var shown int
		_, err = fmt.Fscan(hear, &shown)
		_ = hear.Close()
		if err != nil {
			return nil, err
		}
		if as == "session" {
			_ = c.Wait()
		}
		h, err := (proc.Ref{PID: shown, Start: startOf(shown)}).Open()
		if err != nil {
			return nil, err
		}
		s := &stranger{pid: shown, as: as, handle: h}
		if c.Process.Pid == pid {
			return s, nil
		}
		s.end()
	}
	return nil, errTaken
}

// errTaken says that a PID belongs to a thread of this program for good.
var errTaken = errors.New("the PID cannot be had")

func startOf(pid int) uint64 {
	info, _ := proc.Lookup(pid)
	return info.Start
}

// reuseOnce makes a container whose shim was killed, gives its PIDs to other processes, and makes
// all calls of an agent.
func reuseOnce(round int) (strangers []*stranger, err error) {
	dir, err := os.MkdirTemp("", "reuse")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	e := &env{root: dir}
	rt, err := process.New(process.Options{Root: dir})
	if err != nil {
		return nil, err
	}
	uid := types.UID(testUID + "reuse")
	sandbox, err := rt.RunSandbox(ctx, runtime.SandboxSpec{UID: uid, Name: "p"})
	if err != nil {
		return nil, err
	}
	id, err := rt.CreateContainer(ctx, sandbox, runtime.ContainerSpec{Name: "c", Command: []string{"sleep", "1000"}})
	if err != nil {
		return nil, err
	}
	folder, err := os.OpenRoot(e.folder(id))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	p, err := lostProcess(ctx, rt, id, folder, round)
	if err != nil {
		return nil, err
	}
	for pid, make := range map[int]func(int) (*stranger, error){p.Shim.PID: leaderAt, p.Main.PID: daemonAt} {
		s, err := make(pid)
		if err != nil {
			return strangers, err
		}
		strangers = append(strangers, s)
		if pid == p.Shim.PID && round%2 == 0 { // reused within one tick of the clock
			p.Shim.Start = startOf(pid)
		}
	}
	if err := record.Write(folder, record.ProcessFile, p); err != nil {
		return strangers, err
	}
	_, err = rt.PodStatus(ctx, uid)
	return strangers, errors.Join(err, rt.StopContainer(ctx, id, 0), rt.RemoveSandbox(ctx, sandbox))
}

// lostProcess returns the record of a container whose shim is gone: of a container that ran and was
// killed in a twentieth of the rounds, because that takes longer, and with invented numbers
// otherwise.
func lostProcess(ctx context.Context, rt *process.Runtime, id runtime.ContainerID, folder *os.Root, round int) (record.Process, error) {
	boot, err := proc.BootID()
	if err != nil {
		return record.Process{}, err
	}
	if round%20 != 0 {
		return record.Process{BootID: boot, StartedAt: time.Now(),
			Shim: proc.Ref{PID: 2000 + round%20000, Start: 1}, Main: proc.Ref{PID: 2000 + (round+10000)%20000, Start: 1}}, nil
	}
	if err := rt.StartContainer(ctx, id); err != nil {
		return record.Process{}, err
	}
	p, err := record.Read[record.Process](folder, record.ProcessFile)
	if err != nil {
		return p, err
	}
	if err := p.Shim.Signal(unix.SIGKILL); err != nil {
		return p, err
	}
	for _, ref := range []proc.Ref{p.Shim, p.Main} { // both are children of process 1 by then
		for {
			if _, err := unix.Wait4(ref.PID, nil, 0, nil); err == nil || errors.Is(err, unix.ECHILD) && !ref.Alive() {
				break
			}
		}
	}
	return p, nil
}
