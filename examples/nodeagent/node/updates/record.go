// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"slices"
	"time"
)

// Phase is the state of the update of a unit. A unit is a pod, or a group of pods that change
// together.
type Phase string

const (
	// Empty is the phase of a unit without any version.
	Empty Phase = ""
	// Steady means that the good version runs, and no update is wanted or allowed.
	Steady Phase = "Steady"
	// Staging means that the good version runs while the images of the next version are fetched.
	Staging Phase = "Staging"
	// Staged means that everything of the next version is present, and that the switch is held.
	Staged Phase = "Staged"
	// Proving means that the next version runs and has not yet passed its gate.
	Proving Phase = "Proving"
	// RollingBack means that the next version failed, and that the good version was started again.
	RollingBack Phase = "RollingBack"
	// Degraded means that the running version has failed its gate, and the unit has no better
	// version.
	Degraded Phase = "Degraded"
)

// Bounds of a Record.
const (
	maxBad     = 16
	maxHistory = 10
	maxMessage = 256 // bytes of a message
)

// Record is the state of a unit that survives a power cut. The zero Record is that of a new unit.
type Record struct {
	Phase Phase `json:"phase"`
	// Good is the hash of the last version that passed its gate, "" without such a version.
	Good string `json:"good,omitempty"`
	// Next is the hash of the version in Staging, Staged, Proving or RollingBack.
	Next string `json:"next,omitempty"`
	// Pick is the hash of the version of a Rollback call. Over is the hash of the source's version
	// at the time of the call. Pick is dropped when the source lists another version.
	Pick string `json:"pick,omitempty"`
	Over string `json:"over,omitempty"`
	// Boot identifies the boot of the machine in which Proving began.
	Boot string `json:"boot,omitempty"`
	// Restarts counts the starts of the agent during Proving.
	Restarts int `json:"restarts,omitempty"`
	// Since is the wall clock at the begin of the phase, for display.
	Since time.Time `json:"since,omitzero"`
	// Reason and Message say why the version About does not run. They are kept until a version
	// passes its gate, or until About is not wanted any more.
	About   string `json:"about,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Bad lists the versions that are not tried again, the newest last.
	Bad []Bad `json:"bad,omitempty"`
	// History lists the ends of earlier updates, the newest last.
	History []Entry `json:"history,omitempty"`

	// until is the deadline of Proving and RollingBack. It is not stored: the clock may jump between
	// two lives of the agent.
	until time.Time
}

// Bad is a version that failed.
type Bad struct {
	Hash string    `json:"hash"`
	Time time.Time `json:"time"`
	// Refused means that the version was never started. The next agent tries a refused version
	// again, because its options may differ.
	Refused bool `json:"refused,omitempty"`
}

// Entry is the end of an update.
type Entry struct {
	Hash    string    `json:"hash"`
	Time    time.Time `json:"time"`
	Reason  string    `json:"reason"` // EventSucceeded, EventFailed or EventRefused
	Message string    `json:"message,omitempty"`
}

// Runs returns the hash of the version to run, "" without a version.
func (r *Record) Runs() string {
	if r.Phase == Proving || r.Good == "" {
		return r.Next
	}
	return r.Good
}

// Pinned returns the hashes of the versions whose images have to stay on the node.
func (r *Record) Pinned() (hashes []string) {
	for _, hash := range []string{r.Good, r.Next} {
		if hash != "" && !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
		}
	}
	return hashes
}

// Known returns the hashes of the versions whose manifests stay on the disk: the pinned versions,
// and the versions for which Rollback can ask.
func (r *Record) Known() []string {
	hashes := r.Pinned()
	if r.Pick != "" {
		hashes = append(hashes, r.Pick)
	}
	for _, e := range r.History {
		hashes = append(hashes, e.Hash)
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// Previous returns the newest version of the history, except Good, that passed its gate, "" without
// such a version.
func (r *Record) Previous() string {
	for _, e := range slices.Backward(r.History) {
		if e.Reason == EventSucceeded && e.Hash != r.Good {
			return e.Hash
		}
	}
	return ""
}

// mayRunUnsaved reports whether the version that has to run may be started although r could not be
// stored, for example on a full disk. A stored record of an earlier phase then leads to the same
// version, or there is no version that could be lost.
func (r *Record) mayRunUnsaved() bool {
	return r.Good == "" || r.Phase == RollingBack || r.Phase == Degraded
}

// isFirstTry reports whether r need not be written, because the first version of a unit is in
// Proving. stored is the record on the disk. Without a record, the next agent, too, begins with the
// version that the source lists.
func (r *Record) isFirstTry(stored *Record) bool {
	return stored.Phase == Empty && r.Phase == Proving && r.Good == "" && r.Pick == ""
}

// isBad reports whether the version failed before.
func (r *Record) isBad(hash string) bool {
	return slices.ContainsFunc(r.Bad, func(b Bad) bool { return b.Hash == hash })
}

// clone returns a copy that shares no memory with r.
func (r *Record) clone() Record {
	c := *r
	c.Bad, c.History = slices.Clone(r.Bad), slices.Clone(r.History)
	return c
}

// equal reports whether both records have the same content on the disk.
func (r *Record) equal(o *Record) bool {
	a, b := *r, *o
	return slices.Equal(a.Bad, b.Bad) && slices.Equal(a.History, b.History) &&
		a.Phase == b.Phase && a.Good == b.Good && a.Next == b.Next && a.Pick == b.Pick && a.Over == b.Over &&
		a.Boot == b.Boot && a.Restarts == b.Restarts && a.About == b.About && a.Reason == b.Reason && a.Message == b.Message
}

// enter begins a phase.
func (r *Record) enter(p Phase, now time.Time) {
	r.Phase, r.Since, r.until = p, now, time.Time{}
}

// addBad excludes a version from further attempts.
func (r *Record) addBad(b Bad) {
	r.Bad = slices.DeleteFunc(r.Bad, func(old Bad) bool { return old.Hash == b.Hash })
	r.Bad = append(r.Bad, b)
	r.Bad = r.Bad[max(0, len(r.Bad)-maxBad):]
}

// addEnd appends the end of an update to the history.
func (r *Record) addEnd(e Entry) {
	e.Message = shorten(e.Message)
	r.History = append(r.History, e)
	r.History = r.History[max(0, len(r.History)-maxHistory):]
}

// explain sets the reason why a version does not run.
func (r *Record) explain(hash, reason, message string) {
	r.About, r.Reason, r.Message = hash, reason, shorten(message)
}

func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return message[:maxMessage] + "…"
}
