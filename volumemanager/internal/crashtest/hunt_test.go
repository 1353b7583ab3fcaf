// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hunt kills agents, and counts the kills.
type hunt struct {
	*testing.T
	world   *world
	program string
	output  string
	// expected is the number of boundaries in each phase of the last agents, of all calls and of
	// each call.
	expected [everything + 1][phases]tally
	// phases and calls count kills by phase and call, agents counts all agents.
	phases [phases + 1]int
	calls  map[string]int
	agents int
	// story is the history of the live pods.
	story []string
}

func newHunt(t *testing.T, random *rand.Rand) *hunt {
	program, err := os.Executable()
	require.NoError(t, err)
	h := &hunt{T: t, world: newWorld(t, random), program: program, output: filepath.Join(t.TempDir(), "output"), calls: map[string]int{}}
	for p := range phases {
		h.expected[changes][p], h.expected[everything][p] = tally{anyCall: 200}, tally{anyCall: 1500}
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

// tally counts boundaries by the number of the call, and all boundaries.
type tally map[uint64]int

// anyCall is not the number of a call.
const anyCall = ^uint64(0)

// target is the boundary at which an agent is killed: the boundary after n others since the
// beginning of a phase, of a given system call or of any.
type target struct {
	phase phase
	call  uint64
	n     int
	how   verdict
}

// draw draws a target. For half of the targets any boundary counts, mostly of a frequent call. For
// the other half, the call is drawn first.
func (h *hunt) draw(p plan, aim phase) target {
	random, expected := h.world.random, h.expected[p.Boundaries][aim]
	to := target{phase: aim, call: anyCall, how: killBefore}
	if random.IntN(2) == 0 {
		to.how = killAfter
	}
	if calls := slices.Sorted(maps.Keys(expected)); random.IntN(2) == 0 {
		to.call = calls[random.IntN(len(calls))]
	}
	to.n = random.IntN(expected[to.call]*9/8 + 1)
	return to
}

// kill runs an agent until a random boundary, in the phase with the fewest kills. An agent that
// completes before the boundary is replaced by another.
func (h *hunt) kill() {
	h.Helper()
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
		if h.run(p, h.draw(p, aim)) {
			return
		}
	}
	h.Fatal("50 agents in turn got away")
}

// letLive runs an agent to its end.
func (h *hunt) letLive(p plan) {
	h.Helper()
	if h.run(p, target{phase: phases}) {
		h.Fatal("an agent was killed that should not be")
	}
	h.story = nil
}

// run runs an agent, and checks its leftovers. It reports whether the agent was killed.
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
	for phase := range phases { // the last phase was interrupted
		if phase == last || counts[phase][anyCall] == 0 {
			continue
		}
		expected := h.expected[p.Boundaries][phase]
		for call, n := range counts[phase] {
			if was, known := expected[call]; known {
				n = (3*was + n + 3) / 4
			}
			expected[call] = n
		}
	}
	return tr.killed
}

// trace runs an agent. It returns the tracer, the number of boundaries in each phase, the exit
// status, and the output.
func (h *hunt) trace(p plan, to target) (tr *tracer, counts [phases + 1]tally, status unix.WaitStatus, said string) {
	h.Helper()
	text, err := json.Marshal(p)
	require.NoError(h, err)
	output, err := os.Create(h.output)
	require.NoError(h, err)
	defer output.Close()
	w := h.world
	w.phase = phases
	for phase := range counts {
		counts[phase] = tally{}
	}
	passed := 0
	tr = &tracer{told: w.told, judge: func(c call) verdict {
		counts[w.phase][c.nr]++
		counts[w.phase][anyCall]++
		if w.phase == phases || counts[to.phase][anyCall] == 0 || to.call != anyCall && to.call != c.nr {
			return goOn
		}
		if passed++; passed <= to.n || c.nr == unix.SYS_WRITE && strings.HasPrefix(c.file(0), "anon_inode:") {
			return goOn // the wake-up of a thread is not a boundary
		}
		return to.how
	}}
	status, err = tr.run(h.program, append(os.Environ(), planEnv+"="+string(text)), output)
	data, unread := os.ReadFile(h.output)
	require.NoError(h, unread)
	if err == nil && !tr.killed && status.Exited() && status.ExitStatus() == noTraceExit {
		err = fmt.Errorf("%w: %s", errNoTrace, data)
	}
	if errors.Is(err, errNoTrace) && os.Getenv("KEELSON_E2E") != "1" {
		h.Skip(err)
	}
	require.NoError(h, err)
	return tr, counts, status, string(data)
}

// note adds an event to the story.
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

// report logs where agents were killed.
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
