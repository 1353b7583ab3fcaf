// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"fmt"
	"slices"
	"time"
)

// Reasons of events. The history of a unit uses some of these reasons.
const (
	EventStaging        = "UpdateStaging"
	EventBlocked        = "UpdateBlocked"
	EventHeld           = "UpdateHeld"
	EventRefused        = "UpdateRefused"
	EventStarted        = "UpdateStarted"
	EventSucceeded      = "UpdateSucceeded"
	EventFailed         = "UpdateFailed"
	EventRollback       = "RollbackStarted"
	EventRolledBack     = "RolledBack"
	EventRollbackFailed = "RollbackFailed"
	EventRecordLost     = "UpdateRecordLost"
)

// Reasons of failed updates, besides those of gates and pods.
const (
	ReasonDeadline  = "DeadlineExceeded"
	ReasonRebooted  = "Rebooted"
	ReasonRestarted = "AgentRestarted"
	ReasonReverted  = "Reverted"
)

// maxRestarts is how often the agent may start again during Proving, without a boot of the machine.
const maxRestarts = 2

// Facts are the observations from which Decide computes the next state of a unit.
type Facts struct {
	// Started is true in the first call of Decide after the start of an agent.
	Started bool
	// Boot identifies the boot of the machine, "" if it is unknown.
	Boot string
	// Listed means that the source has listed its pods. Desired is the hash of the version in the
	// source, "" without a version.
	Listed  bool
	Desired string
	// Pick is the hash of the version of a Rollback call, "" without a call.
	Pick string
	// Stage is the progress of the staging of the version with the hash Stage.Hash.
	Stage Stage
	// Hold forbids the switch to a staged version. NotBefore delays it.
	Hold      bool
	NotBefore time.Time
	// Health is the judgement about the version with the hash Health.Hash.
	Health Health
	// Deadline limits Proving and RollingBack.
	Deadline time.Duration
}

// Stage is the progress of a staging. The zero value means that the staging has not begun.
type Stage struct {
	Hash string
	// Done means that everything is present.
	Done bool
	// Refused is the reason if the version can never run on this node.
	Refused string
	// Blocked describes a problem that may end, while the staging is tried again.
	Blocked string
}

// Action is a step that Decide asks for. All actions are idempotent.
type Action struct {
	Kind ActionKind
	// Hash is the version of Run and StartStaging. Run with the hash "" stops the unit.
	Hash string
	// Reason, Message and Warning describe the event of Emit.
	Reason, Message string
	Warning         bool
	// At is the time of Wait.
	At time.Time
}

// ActionKind is the kind of an Action.
type ActionKind uint8

// Kinds of actions.
const (
	Run ActionKind = iota + 1
	StartStaging
	StopStaging // the progress of an earlier staging is not valid any more
	Emit
	Wait
	Forget // the record is not needed any more
)

// String describes the action in the output of tests.
func (a Action) String() string {
	switch a.Kind {
	case Run:
		return fmt.Sprintf("run %q", a.Hash)
	case StartStaging:
		return fmt.Sprintf("stage %q", a.Hash)
	case StopStaging:
		return "stop staging"
	case Emit:
		return "emit " + a.Reason
	case Wait:
		return "wait"
	case Forget:
		return "forget"
	}
	return "unknown"
}

// Decide returns the next record of a unit and the actions that follow from it. A changed record has
// to be stored before the actions are carried out, and Decide is called again at once with new
// facts. See Record.mayRunUnsaved for the exceptions.
func Decide(r Record, f Facts, now time.Time) (Record, []Action) {
	d := decision{r: r.clone(), f: f, now: now}
	if f.Health.Hash != r.Runs() {
		d.f.Health = Health{}
	}
	if f.Started {
		d.start()
	}
	want := d.want()
	switch {
	case f.Listed && f.Desired == "":
		return Record{}, []Action{{Kind: Run}, {Kind: Forget}}
	case d.r.Phase == Empty && want == "":
		return d.r, nil
	case d.r.Phase == Proving:
		d.prove(want)
	case d.r.Phase == RollingBack:
		d.rollBack()
	case d.mayBegin(want):
		d.begin(want)
	case d.r.Phase == Staging, d.r.Phase == Staged:
		d.stage(want)
	case d.r.Phase == Degraded:
		d.recover()
	case !f.Listed: // the reasons of the earlier agent stay
	case d.r.Phase == Steady && want == d.r.Good:
		d.r.explain("", "", "") // the failed version is not wanted any more
	case d.r.Phase == Steady && d.r.About != want:
		d.r.explain(want, EventFailed, "version "+want+" failed before, version "+d.r.Good+" stays until the manifest changes")
	}
	actions := append([]Action{{Kind: Run, Hash: d.r.Runs()}}, d.actions...)
	if d.r.Phase == Staging {
		actions = append(actions, Action{Kind: StartStaging, Hash: d.r.Next})
	}
	return d.r, actions
}

type decision struct {
	r       Record
	f       Facts
	now     time.Time
	actions []Action
}

// want returns the hash of the version to run, as far as known: the pick of a Rollback call, or
// else the version of the source.
func (d *decision) want() string {
	if d.f.Pick != "" && d.f.Listed {
		d.r.Pick, d.r.Over = d.f.Pick, d.f.Desired
		d.r.Bad = slices.DeleteFunc(d.r.Bad, func(b Bad) bool { return b.Hash == d.f.Pick })
	}
	if d.r.Pick != "" && d.f.Listed && d.f.Desired != d.r.Over {
		d.r.Pick, d.r.Over = "", ""
	}
	switch {
	case d.r.Pick != "":
		return d.r.Pick
	case d.f.Listed:
		return d.f.Desired
	case d.r.Phase == Staging, d.r.Phase == Staged, d.r.Phase == Proving:
		return d.r.Next
	}
	return d.r.Runs()
}

// start adapts the record of an earlier agent.
func (d *decision) start() {
	d.r.Bad = slices.DeleteFunc(d.r.Bad, func(b Bad) bool { return b.Refused })
	switch d.r.Phase {
	case Staged:
		d.r.Phase = Staging // an image may have been removed meanwhile
	case Proving:
		rebooted := d.r.Boot != d.f.Boot && d.r.Boot != "" && d.f.Boot != ""
		d.r.Boot = d.f.Boot
		d.r.Restarts++
		switch {
		case d.r.Good == "":
		case rebooted:
			d.fail(ReasonRebooted, "the machine was booted while the version was being proved")
		case d.r.Restarts > maxRestarts:
			d.fail(ReasonRestarted, fmt.Sprintf("the agent started %d times while the version was being proved", d.r.Restarts))
		}
	}
}

// mayBegin reports whether an update to want may begin now.
func (d *decision) mayBegin(want string) bool {
	if want == d.r.Next && (d.r.Phase == Staging || d.r.Phase == Staged) {
		return false
	}
	return want != d.r.Runs() && !d.r.isBad(want)
}

// begin starts the update to another version. The first version of a unit is started at once,
// because its failure hurts no predecessor.
func (d *decision) begin(want string) {
	d.r.Next, d.r.Restarts = want, 0
	if d.r.Good == "" {
		d.r.enter(Proving, d.now)
		d.r.Boot = d.f.Boot
		return
	}
	d.r.enter(Staging, d.now)
	d.emit(EventStaging, "version "+want+" is being fetched; version "+d.r.Good+" runs", false)
}

// stage continues or cancels the staging of the next version.
func (d *decision) stage(want string) {
	switch {
	case want != d.r.Next: // the good version, or a version that failed before
		d.r.Next = ""
		d.r.enter(Steady, d.now)
	case d.r.Phase == Staging:
		d.fetch()
	case d.f.Hold:
		if d.r.Reason != EventHeld {
			d.r.explain(d.r.Next, EventHeld, "version "+d.r.Next+" is present; the switch waits for the end of the hold")
			d.emit(EventHeld, d.r.Message, false)
		}
	case d.f.NotBefore.After(d.now):
		d.wait(d.f.NotBefore)
	default:
		d.r.enter(Proving, d.now)
		d.r.Boot, d.r.Restarts = d.f.Boot, 0
		d.emit(EventStarted, "version "+d.r.Good+" is replaced by version "+d.r.Next, false)
	}
}

// fetch evaluates the progress of the staging.
func (d *decision) fetch() {
	s := d.f.Stage
	if s.Hash != d.r.Next {
		return
	}
	switch {
	case s.Refused != "":
		message := fmt.Sprintf("version %s cannot run on this node, version %s stays: %s", d.r.Next, d.r.Good, s.Refused)
		d.r.addBad(Bad{Hash: d.r.Next, Time: d.now, Refused: true})
		d.r.addEnd(Entry{d.r.Next, d.now, EventRefused, s.Refused})
		d.r.explain(d.r.Next, EventRefused, message)
		d.emit(EventRefused, message, true)
		d.r.Next = ""
		d.r.enter(Steady, d.now)
	case s.Done:
		d.r.enter(Staged, d.now)
	case s.Blocked != "":
		message := shorten(fmt.Sprintf("version %s cannot be fetched, version %s stays, will be tried again: %s", d.r.Next, d.r.Good, s.Blocked))
		if d.r.Message != message {
			d.r.explain(d.r.Next, EventBlocked, message)
			d.emit(EventBlocked, message, true)
		}
	}
}

// prove evaluates the gate of the next version.
func (d *decision) prove(want string) {
	switch {
	case d.r.Good == "" && want != d.r.Next && want != "":
		d.begin(want)
	case d.r.Good != "" && want == d.r.Good:
		d.r.enter(RollingBack, d.now)
		d.r.explain(d.r.Next, ReasonReverted, "version "+d.r.Good+" is wanted again")
		d.emit(EventRollback, d.r.Message, false)
	case d.f.Health.Passed:
		d.commit()
	case d.f.Health.Failed != "":
		d.fail(d.f.Health.Failed, d.f.Health.Message)
	case d.isLate():
		d.fail(ReasonDeadline, fmt.Sprintf("the gate was not passed within %s", d.f.Deadline))
	default:
		d.wait(d.f.Health.Again)
	}
}

// commit makes the next version the good one.
func (d *decision) commit() {
	if d.r.Next != "" {
		d.r.Good = d.r.Next
	}
	d.r.Next = ""
	d.r.enter(Steady, d.now)
	d.r.explain("", "", "")
	d.r.addEnd(Entry{d.r.Good, d.now, EventSucceeded, ""})
	d.emit(EventSucceeded, "version "+d.r.Good+" has passed its gate", false)
}

// fail handles the failure of the next version.
func (d *decision) fail(reason, message string) {
	d.r.addEnd(Entry{d.r.Next, d.now, EventFailed, reason + ": " + message})
	if d.r.Good == "" {
		d.r.enter(Degraded, d.now)
		d.r.explain(d.r.Next, reason, fmt.Sprintf("version %s failed, and there is no earlier version: %s", d.r.Next, message))
		d.emit(EventFailed, reason+": "+d.r.Message, true)
		return
	}
	d.r.addBad(Bad{Hash: d.r.Next, Time: d.now})
	d.r.enter(RollingBack, d.now)
	d.r.explain(d.r.Next, reason, fmt.Sprintf("version %s failed, version %s runs again: %s", d.r.Next, d.r.Good, message))
	d.emit(EventFailed, reason+": "+d.r.Message, true)
	d.emit(EventRollback, "version "+d.r.Good+" is started again", true)
}

// rollBack evaluates the gate of the good version after a failed update.
func (d *decision) rollBack() {
	switch {
	case d.f.Health.Passed:
		d.r.Next = ""
		d.r.enter(Steady, d.now)
		d.emit(EventRolledBack, "version "+d.r.Good+" runs again and has passed its gate", false)
	case d.f.Health.Failed != "":
		d.degrade(d.f.Health.Failed + ": " + d.f.Health.Message)
	case d.isLate():
		d.degrade(fmt.Sprintf("%s: the gate was not passed within %s", ReasonDeadline, d.f.Deadline))
	default:
		d.wait(d.f.Health.Again)
	}
}

func (d *decision) degrade(why string) {
	d.r.enter(Degraded, d.now)
	d.emit(EventRollbackFailed, fmt.Sprintf("version %s runs again, and fails its gate, too: %s", d.r.Good, why), true)
}

// recover ends Degraded when the running version passes its gate.
func (d *decision) recover() {
	switch {
	case !d.f.Health.Passed:
		d.wait(d.f.Health.Again)
	case d.r.Good == "":
		d.commit()
	default:
		d.r.Next = ""
		d.r.enter(Steady, d.now)
		d.emit(EventRolledBack, "version "+d.r.Good+" has passed its gate", false)
	}
}

// isLate reports whether the phase has reached its deadline, and asks for a call at the deadline.
func (d *decision) isLate() bool {
	if d.r.until.IsZero() {
		d.r.until = d.now.Add(d.f.Deadline)
	}
	d.wait(d.r.until)
	return !d.now.Before(d.r.until)
}

func (d *decision) emit(reason, message string, warning bool) {
	d.actions = append(d.actions, Action{Kind: Emit, Reason: reason, Message: message, Warning: warning})
}

// wait asks for a call at the time, unless it is zero.
func (d *decision) wait(at time.Time) {
	if !at.IsZero() {
		d.actions = append(d.actions, Action{Kind: Wait, At: at})
	}
}
