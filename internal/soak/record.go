// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Event is what a Record tells of.
type Event string

// What the program in a container tells of. All from Doubled on are faults.
const (
	Started Event = "start"  // it runs; Text is its kind
	Asked   Event = "term"   // it was asked to end
	Ended   Event = "exit"   // it ends by itself now, with Code
	Hooked  Event = "hook"   // its preStop hook runs
	Saw     Event = "config" // Code is the ConfigMap's version

	Doubled       Event = "DOUBLED"        // another instance has the lock: Text
	VolumeLost    Event = "VOLUME-LOST"    // what an earlier instance wrote is gone
	VolumeStale   Event = "VOLUME-STALE"   // an earlier pod's files are there
	VolumeGone    Event = "VOLUME-GONE"    // a file went while the program ran
	ConfigTorn    Event = "CONFIG-TORN"    // parts of two versions, or of none
	ConfigOlder   Event = "CONFIG-OLDER"   // a version came after a later one
	InitMissing   Event = "INIT-MISSING"   // an init container has not ended before
	WitnessFailed Event = "WITNESS-FAILED" // the program itself cannot do its work
)

// IsFault reports whether the event must never be.
func (e Event) IsFault() bool {
	switch e {
	case Started, Asked, Ended, Hooked, Saw:
		return false
	}
	return true
}

// Record is one line that the program in a container wrote about itself.
type Record struct {
	At         time.Time `json:"at"`
	Event      Event     `json:"event"`
	Pod        string    `json:"pod"` // as in its manifest
	Generation int       `json:"generation"`
	Container  string    `json:"container"`
	Instance   string    `json:"instance"` // one for each start
	Code       int       `json:"code,omitempty"`
	Text       string    `json:"text,omitempty"`
}

// String is for people.
func (r Record) String() string {
	return fmt.Sprintf("%s/%d/%s %s %s %d %s", r.Pod, r.Generation, r.Container, r.Instance, r.Event, r.Code, r.Text)
}

// Folder is what containers and the test share: a folder of the node that has
// the same path inside.
type Folder string

// Program is where the containers' program is.
func (f Folder) Program() string { return filepath.Join(string(f), "witness") }

// Records is the file with a line for each Record, in the order in which they
// were written.
func (f Folder) Records() string { return filepath.Join(string(f), "records") }

// Order is the file that tells an instance to end, with the code in it.
func (f Folder) Order(instance string) string { return filepath.Join(string(f), "orders", instance) }

// Lock is the file that the one instance of a container holds.
func (f Folder) Lock(pod, container string) string {
	return filepath.Join(string(f), "locks", pod+"."+container)
}

// Mark is the file that says what a container has written to its volume.
func (f Folder) Mark(pod string, generation int, container string) string {
	return filepath.Join(string(f), "marks", fmt.Sprintf("%s.%d.%s", pod, generation, container))
}

// Anew is the file that says that a generation was removed and has come back, so
// that its volumes may begin anew.
func (f Folder) Anew(pod string, generation int) string {
	return filepath.Join(string(f), "anew", fmt.Sprintf("%s.%d", pod, generation))
}

// Make makes the folders in it.
func (f Folder) Make() error {
	for _, dir := range []string{"orders", "locks", "marks", "anew"} {
		if err := os.MkdirAll(filepath.Join(string(f), dir), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Write adds a record, whole and at the end.
func (f Folder) Write(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.Records(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}
