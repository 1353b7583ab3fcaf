// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/casetest"
)

var schedules = flag.Int("schedules", casetest.Rounds(300), "number of random schedules; 100000 take three minutes")

// TestSchedules runs updates in virtual time under random trouble: lost links, full disks, power
// cuts and kills before and after every write and every action, changed, reverted and removed
// manifests, versions that fail in several ways, and image collection at any time.
func TestSchedules(t *testing.T) {
	ends := map[string]int{}
	for seed := range *schedules {
		s := newSchedule(uint64(seed))
		if fault := s.run(); fault != "" {
			s = newSchedule(uint64(seed))
			s.logs = true
			s.run()
			for _, line := range s.log[max(0, len(s.log)-60):] {
				t.Log(line)
			}
			t.Fatalf("seed %d: %s", seed, fault)
		}
		ends[s.ending]++
		for what, n := range s.counts {
			ends[what] += n
		}
	}
	t.Log(ends)
	for _, what := range []string{"switch", "rollback", "power cut", "collected", "good", "kept", "degraded"} {
		if ends[what] == 0 {
			t.Errorf("no schedule has a %s", what)
		}
	}
}

// behaviour is what a version does when it runs.
type behaviour int

const (
	healthy behaviour = iota
	slow              // healthy after three minutes
	crashes
	never   // never ready
	flaps   // ready for less than the gate
	boots   // makes the machine boot
	refused // cannot run on this node
	behaviours
)

type schedule struct {
	rng  *rand.Rand
	now  time.Time
	log  []string
	logs bool // keep a log

	// The machine.
	boot     int
	state    []byte          // on the disk; nil: none
	decoded  *Record         // state
	versions map[string]bool // on the disk
	images   map[string]bool
	full     bool
	link     bool
	cut      int // writes and actions until the power cut; 0: none
	kill     bool

	// The containers, which survive the agent but not a boot.
	runs  string
	since time.Time

	// The agent.
	u      *unit
	staged Stage
	wake   time.Time

	// The source.
	listed  bool
	hold    bool
	desired string
	does    map[string]behaviour

	proved map[string]bool // versions that were the good one since the unit began
	ending string
	counts map[string]int
	fault  string
}

type powerCut struct{}

func newSchedule(seed uint64) *schedule {
	s := &schedule{
		rng: rand.New(rand.NewPCG(seed, 16)), now: start, boot: 1, link: true, versions: map[string]bool{}, images: map[string]bool{},
		does: map[string]behaviour{}, counts: map[string]int{}, proved: map[string]bool{},
	}
	s.edit()
	return s
}

func (s *schedule) note(format string, args ...any) {
	if !s.logs {
		return
	}
	s.log = append(s.log, fmt.Sprintf("%8s ", s.now.Sub(start).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (s *schedule) wrong(format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf(format, args...)
	}
}

// edit lists a version: a new one, or one of before.
func (s *schedule) edit() {
	hash := fmt.Sprintf("v%d", len(s.does)+1)
	if n := len(s.does); n > 0 && s.rng.IntN(3) == 0 {
		hash = fmt.Sprintf("v%d", s.rng.IntN(n)+1)
	} else {
		s.does[hash] = behaviour(s.rng.IntN(int(behaviours)))
		if s.rng.IntN(2) == 0 {
			s.does[hash] = healthy
		}
	}
	if s.disk().Good == "" && s.does[hash] == boots {
		s.does[hash] = crashes // nothing could end the boots
	}
	s.desired = hash
	s.note("edit: %s, behaviour %d", hash, s.does[hash])
}

// disk returns the stored record.
func (s *schedule) disk() (r Record) {
	switch {
	case s.state == nil:
		return r
	case s.decoded == nil:
		if err := json.Unmarshal(s.state, &r); err != nil {
			s.wrong("%v", err)
		}
		s.decoded = &r
	}
	return s.decoded.clone()
}

// step is a point at which the power may be cut.
func (s *schedule) step() {
	if s.cut > 0 {
		if s.cut--; s.cut == 0 {
			panic(powerCut{})
		}
	}
}

// facts implements world.
func (s *schedule) facts(r *Record) Facts {
	f := Facts{
		Boot: fmt.Sprint(s.boot), Listed: s.listed, Desired: s.desired, Stage: s.staged, Deadline: 5 * time.Minute,
		Hold: s.hold,
	}
	if hash := r.Runs(); hash != "" && s.runs == hash {
		f.Health = s.health()
	}
	return f
}

func (s *schedule) health() Health {
	age := s.now.Sub(s.since)
	h := Health{Hash: s.runs}
	if !s.images[s.runs] {
		return h
	}
	after := func(d time.Duration) bool {
		if age < d {
			h.Again = s.since.Add(d)
		}
		return age >= d
	}
	switch s.does[s.runs] {
	case healthy:
		h.Passed = after(12 * time.Second)
	case slow:
		h.Passed = after(3 * time.Minute)
	case crashes:
		if after(3 * time.Second) {
			h.Failed, h.Message = "Restarted", "exit code 1"
		}
	case flaps:
		h.Again = s.now.Add(9 * time.Second)
	}
	return h
}

var errFull = errors.New("no space left on device")

// save implements world.
func (s *schedule) save(r *Record) error {
	s.step()
	if s.full {
		return errFull
	}
	for _, hash := range r.Known() {
		s.versions[hash] = true
	}
	s.step()
	s.state, _ = json.Marshal(r)
	s.decoded = nil
	s.note("saved: %s good %s next %s %s", r.Phase, r.Good, r.Next, r.Reason)
	if r.Good != "" {
		s.proved[r.Good] = true
	}
	s.step()
	return nil
}

// act implements world.
func (s *schedule) act(a Action) {
	s.step()
	switch a.Kind {
	case Run:
		s.switchTo(a.Hash)
	case StartStaging:
		if s.staged.Hash != a.Hash {
			s.staged = Stage{Hash: a.Hash}
		}
	case StopStaging:
		s.staged = Stage{}
	case Wait:
		if s.wake.IsZero() || a.At.Before(s.wake) {
			s.wake = a.At
		}
	case Forget:
		s.state, s.versions, s.u, s.proved = nil, map[string]bool{}, &unit{started: true}, map[string]bool{}
	case Emit:
		s.note("event %s: %s", a.Reason, a.Message)
		s.counts[a.Reason]++
	}
	s.step()
}

func (s *schedule) switchTo(hash string) {
	if s.runs == hash {
		return
	}
	s.note("runs %s", hash)
	r := &s.u.record
	switch {
	case hash == "" || r.Good == "":
	case !s.images[hash]:
		s.wrong("%s is started with a pull inside", hash)
	case hash != r.Good && s.disk().Next != hash:
		s.wrong("%s is started without a record", hash)
	case hash == r.Good:
		s.counts["rollback"]++
	default:
		s.counts["switch"]++
	}
	s.runs, s.since = hash, s.now
	if hash != "" && s.link {
		s.images[hash] = true
	}
}

// live lets the agent work until d has passed.
func (s *schedule) live(d time.Duration) {
	end := s.now.Add(d)
	for s.fault == "" {
		s.guard(func() {
			if s.u == nil {
				r := s.disk()
				s.u = &unit{record: r, stored: r.clone()}
				s.staged = Stage{}
			}
			s.wake = time.Time{}
			if err := s.u.turn(s, s.now); err != nil {
				s.wake = s.now.Add(10 * time.Second)
			}
		})
		s.check()
		next := s.now.Add(time.Duration(1+s.rng.IntN(10_000)) * time.Millisecond)
		if !s.wake.IsZero() && s.wake.Before(next) && s.wake.After(s.now) {
			next = s.wake
		}
		if next.After(end) {
			s.now = end
			return
		}
		s.now = next
		s.happen()
	}
}

// guard calls f, and restarts the agent or the machine if the power was cut.
func (s *schedule) guard(f func()) {
	defer func() {
		switch p := recover(); p.(type) {
		case nil:
		case powerCut:
			s.crash()
		default:
			panic(p)
		}
	}()
	f()
}

// crash ends the agent, and the containers unless only the agent was killed.
func (s *schedule) crash() {
	s.u, s.listed = nil, false
	s.counts["power cut"]++
	if s.kill {
		s.note("the agent is killed")
		return
	}
	s.note("the power is cut")
	s.boot++
	s.runs = ""
}

// happen lets time have its effects.
func (s *schedule) happen() {
	if s.does[s.runs] == boots && s.now.Sub(s.since) > 4*time.Second {
		s.kill = false
		s.crash()
	}
	if s.runs != "" && s.link && !s.images[s.runs] {
		s.images[s.runs], s.since = true, s.now
	}
	if s.u == nil {
		return
	}
	if hash := s.staged.Hash; hash != "" && s.rng.IntN(2) == 0 {
		switch {
		case s.does[hash] == refused:
			s.staged.Refused = "spec.something"
		case s.link:
			s.images[hash] = true
			s.staged.Done, s.staged.Blocked = true, ""
		case !s.images[hash]:
			s.staged.Blocked = "no route to host"
		}
	}
	if !s.listed && s.rng.IntN(4) == 0 {
		s.listed = true
	}
}

// collect removes all images that may be removed.
func (s *schedule) collect() {
	if s.u == nil {
		return
	}
	for image := range s.images {
		if image != s.runs && !slices.Contains(s.u.record.Pinned(), image) {
			delete(s.images, image)
			s.counts["collected"]++
		}
	}
}

// check looks for states from which no version can run.
func (s *schedule) check() {
	r := s.disk()
	if r.Good == "" {
		return
	}
	if !s.versions[r.Good] {
		s.wrong("the manifest of the good version %s is lost", r.Good)
	}
	if !s.images[r.Good] {
		s.wrong("the image of the good version %s is lost", r.Good)
	}
	if s.u != nil && s.u.started && s.runs != r.Good && s.runs != s.u.record.Next && s.u.record.Phase != Empty {
		s.wrong("%q runs", s.runs)
	}
	if s.runs != "" && s.u != nil && r.Phase == Steady && r.isBad(s.runs) && s.runs == r.Good {
		s.wrong("the bad version %s is the good one", s.runs)
	}
}

// run returns the first fault of the schedule.
func (s *schedule) run() string {
	s.listed = true
	for range 10 + s.rng.IntN(30) {
		switch s.rng.IntN(12) {
		case 0, 1:
			s.edit()
		case 2:
			s.link = !s.link
		case 3:
			s.full = !s.full
		case 9:
			s.hold = !s.hold
		case 4, 5:
			s.cut, s.kill = 1+s.rng.IntN(12), s.rng.IntN(2) == 0
		case 6, 7:
			s.collect()
		case 8:
			if s.rng.IntN(5) == 0 && s.desired != "" {
				s.desired = ""
				s.note("removed")
			} else if s.desired == "" {
				s.edit()
			}
		}
		s.live(time.Duration(s.rng.IntN(120_000)) * time.Millisecond)
		if s.fault != "" {
			return s.fault
		}
	}
	return s.converge()
}

// converge heals the world and expects the wanted version, or the last good one with a reason.
func (s *schedule) converge() string {
	s.link, s.full, s.hold, s.cut = true, false, false, 0
	if s.desired == "" {
		s.edit()
	}
	if s.runs != "" && s.does[s.runs] == boots && s.disk().Good == "" {
		s.does[s.runs] = crashes
	}
	s.note("all trouble ends, %s is wanted", s.desired)
	for range 20 {
		if s.live(2 * time.Minute); s.fault == "" && s.u.record.Phase == Steady && s.runs == s.desired {
			break
		}
	}
	if s.fault != "" {
		return s.fault
	}
	r := s.u.record
	switch {
	case r.Phase == Steady && r.Good == s.desired && r.Reason == "" && s.runs == r.Good:
		s.ending = "good"
	case r.Phase == Steady && r.isBad(s.desired) && r.Reason != "" && r.About == s.desired && s.runs == r.Good:
		s.ending = "kept"
	case r.Phase == Degraded && r.Good == "" && s.does[s.desired] != healthy && s.runs == s.desired:
		s.ending = "degraded"
	default:
		return fmt.Sprintf("the end is %+v with %s running and %s wanted", r, s.runs, s.desired)
	}
	return ""
}

// turn decides until nothing changes, and returns the error of a record that could not be stored.
// The caller then calls turn again later.
func (u *unit) turn(w world, now time.Time) error {
	t := &turn{unit: u, world: w}
	takeTurns([]*turn{t}, now)
	return t.err
}
