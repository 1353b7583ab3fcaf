// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var (
	killsFlag = flag.Int("kills", 0, "how many agents are killed; 0 means 60, or 1000 with KEELSON_E2E=1")
	seedFlag  = flag.Uint64("seed", 0, "of the random choices; 0 means another one each time")
)

// ownMountsEnv says that this process has a mount namespace of its own.
const ownMountsEnv = "KEELSON_CRASH_OWN_MOUNTS"

func TestMain(m *testing.M) {
	if os.Getenv(planEnv) != "" {
		os.Exit(victimMain())
	}
	switch own := os.Getenv(ownMountsEnv) != ""; {
	case own:
		// What is mounted here stays here; what others unmount goes here, too.
		if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
			fmt.Fprintln(os.Stderr, "make mounts private:", err)
			os.Exit(1)
		}
	case os.Geteuid() == 0:
		if code, ok := runWithOwnMounts(); ok {
			os.Exit(code)
		}
	}
	os.Exit(m.Run())
}

// runWithOwnMounts runs this program again where nobody else sees its mounts; false if that is not permitted.
func runWithOwnMounts() (code int, ok bool) {
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), ownMountsEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, false
	}
	err := cmd.Wait()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed && exit.ExitCode() > 0 {
		return exit.ExitCode(), true
	}
	if err != nil {
		return 1, true
	}
	return 0, true
}

// killsPerLife is after how many kills all pods go, and nothing may be left.
const killsPerLife = 20

// TestKilledAtSystemCalls is the crash test: whenever and however often agents are killed, volumes of pods that live
// are never emptied nor replaced, files made of objects are of one version, what is the user's is untouched; and in the
// end, nothing is left.
func TestKilledAtSystemCalls(t *testing.T) {
	kills, seed := *killsFlag, *seedFlag
	switch {
	case kills == 0 && os.Getenv("KEELSON_E2E") == "1":
		kills = 1000
	case kills == 0:
		kills = 60
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kills %d -seed %d", kills, seed)
	h := newHunt(t, rand.New(rand.NewPCG(seed, 0)))
	began := time.Now()
	for h.total() < kills {
		for range min(killsPerLife, kills-h.total()) {
			h.kill()
		}
		h.letLive(h.world.end())
	}
	h.report(time.Since(began))
	for p := range phases {
		require.NotZero(t, h.phases[p], "no agent was killed during %s", p)
	}
}

// hunt kills agents, and counts.
type hunt struct {
	*testing.T
	world   *world
	program string
	output  string
	// expected is how many boundaries a phase has, by kind.
	expected [everything + 1][phases]int
	// phases and calls count kills, agents all of them.
	phases [phases + 1]int
	calls  map[string]int
	agents int
	// story is what happened to the pods that live.
	story []string
}

func newHunt(t *testing.T, random *rand.Rand) *hunt {
	program, err := os.Executable()
	require.NoError(t, err)
	h := &hunt{T: t, world: newWorld(t, random), program: program, output: filepath.Join(t.TempDir(), "output"), calls: map[string]int{}}
	for p := range phases {
		h.expected[changes][p], h.expected[everything][p] = 200, 1500
	}
	return h
}

func (h *hunt) total() int {
	n := 0
	for _, k := range h.phases {
		n += k
	}
	return n
}

// target is the boundary at which an agent is killed: the n-th from the beginning of a phase on.
type target struct {
	phase phase
	n     int
	how   verdict
}

// kill lets an agent live until a boundary that is drawn, in the phase that had the fewest kills. One that gets through
// before is none, and another takes its place.
func (h *hunt) kill() {
	h.Helper()
	random := h.world.random
	for range 50 {
		aim := reconstruction
		for p := range phases {
			if h.phases[p] < h.phases[aim] {
				aim = p
			}
		}
		p := h.world.invent(aim)
		if aim != reconstruction {
			aim = p.Step
		}
		to := target{phase: aim, n: random.IntN(h.expected[p.Boundaries][aim]*9/8 + 1), how: killBefore}
		if random.IntN(2) == 0 {
			to.how = killAfter
		}
		if h.run(p, to) {
			return
		}
	}
	h.Fatal("50 agents in turn got away")
}

// letLive lets an agent come to its end.
func (h *hunt) letLive(p plan) {
	h.Helper()
	if h.run(p, target{phase: phases}) {
		h.Fatal("an agent was killed that should not be")
	}
	h.story = nil
}

// run runs one agent, and looks at what it leaves. It reports whether it was killed.
func (h *hunt) run(p plan, to target) (killed bool) {
	h.Helper()
	w := h.world
	tr, counts, status, said := h.trace(p, to)
	h.agents++
	h.note(p, tr, status, said)
	w.driver.rest(h.T)
	errs := w.check(h.T)
	if !tr.killed {
		errs = append(errs, w.settled(h.T, p)...)
	}
	switch {
	case tr.expired:
		errs = append(errs, fmt.Errorf("an agent hung for %s", patience))
	case !tr.killed && status != 0:
		errs = append(errs, fmt.Errorf("an agent ended with status %#x", int(status)))
	case said != "":
		errs = append(errs, errors.New("an agent had errors"))
	}
	if len(errs) > 0 {
		h.Fatalf("%v\n\nwhat happened:\n%s", errors.Join(errs...), strings.Join(h.story, "\n"))
	}
	last := w.phase
	if !tr.killed {
		last = phases
	} else {
		h.phases[w.phase]++
		h.calls[strings.Join(strings.Fields(tr.at)[:2], " ")]++
	}
	for phase := range phases { // the last one was cut short
		if n := counts[phase]; n > 0 && phase != last {
			e := &h.expected[p.Boundaries][phase]
			*e = (3**e + n) / 4
		}
	}
	return tr.killed
}

// trace runs one agent, and returns how many boundaries its phases had, its exit status, and what it said.
func (h *hunt) trace(p plan, to target) (tr *tracer, counts [phases + 1]int, status unix.WaitStatus, said string) {
	h.Helper()
	text, err := json.Marshal(p)
	require.NoError(h, err)
	output, err := os.Create(h.output)
	require.NoError(h, err)
	defer output.Close()
	w := h.world
	w.phase = phases
	passed := 0
	tr = &tracer{told: w.told, judge: func(c call) verdict {
		counts[w.phase]++
		if counts[to.phase] == 0 || w.phase == phases {
			return goOn
		}
		if passed++; passed <= to.n || c.nr == unix.SYS_WRITE && strings.HasPrefix(c.file(0), "anon_inode:") {
			return goOn // what wakes a thread of the agent is no boundary
		}
		return to.how
	}}
	status, err = tr.run(h.program, append(os.Environ(), planEnv+"="+string(text)), output)
	if errors.Is(err, errNoTrace) || !tr.killed && status.Exited() && status.ExitStatus() == noTraceExit {
		h.Skipf("agents cannot be stopped at system calls here: %v", err)
	}
	require.NoError(h, err)
	data, err := os.ReadFile(h.output)
	require.NoError(h, err)
	return tr, counts, status, string(data)
}

// note adds what happened to the story.
func (h *hunt) note(p plan, tr *tracer, status unix.WaitStatus, said string) {
	w := h.world
	line := fmt.Sprintf("agent %d: version %d, pods %v, started %v, gone %v; %s %v", h.agents, p.Version, p.Alive, p.Started, p.Gone, p.Step, p.Pods)
	if tr.killed {
		line += fmt.Sprintf("; killed during %s %s", w.phase, strings.ReplaceAll(tr.at, w.Root, ""))
	} else {
		line += fmt.Sprintf("; came to its end, status %#x", int(status))
	}
	if said != "" {
		line += "; it said:\n" + said
	}
	h.story = append(h.story, line)
}

// report says where agents were killed.
func (h *hunt) report(took time.Duration) {
	kills := h.total()
	h.Logf("%d kills of %d agents in %s, %s each", kills, h.agents, took.Round(time.Millisecond), (took / time.Duration(max(1, kills))).Round(time.Millisecond))
	for p := range phases {
		h.Logf("%5d during %s", h.phases[p], p)
	}
	for _, at := range slices.SortedFunc(maps.Keys(h.calls), func(a, b string) int { return h.calls[b] - h.calls[a] }) {
		h.Logf("%5d %s", h.calls[at], at)
	}
	h.Logf("the driver got %v", h.world.driver.calls)
}
