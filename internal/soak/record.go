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

// Event is the kind of a Record.
type Event string

// The events of the program in a container. All events from Doubled on are faults.
const (
	Started Event = "start"  // the program runs; Text is its kind
	Asked   Event = "term"   // the program received SIGTERM
	Ended   Event = "exit"   // the program ends now, with Code
	Hooked  Event = "hook"   // the preStop hook runs
	Saw     Event = "config" // Code is the ConfigMap's version

	Doubled       Event = "DOUBLED"        // another instance has the lock: Text
	VolumeLost    Event = "VOLUME-LOST"    // files of an earlier instance are missing
	VolumeStale   Event = "VOLUME-STALE"   // an earlier pod's files are there
	VolumeGone    Event = "VOLUME-GONE"    // a file went while the program ran
	ConfigTorn    Event = "CONFIG-TORN"    // parts of two versions, or of no version
	ConfigOlder   Event = "CONFIG-OLDER"   // an older version after a newer version
	InitMissing   Event = "INIT-MISSING"   // an init container has not ended before
	WitnessFailed Event = "WITNESS-FAILED" // the program itself failed
)

// IsFault reports whether the event must never happen.
func (e Event) IsFault() bool {
	switch e {
	case Started, Asked, Ended, Hooked, Saw:
		return false
	}
	return true
}

// Record is one line written by the program in a container.
type Record struct {
	At         time.Time `json:"at"`
	Event      Event     `json:"event"`
	Pod        string    `json:"pod"` // the name in the manifest
	Generation int       `json:"generation"`
	Container  string    `json:"container"`
	Instance   string    `json:"instance"` // one per start
	Code       int       `json:"code,omitempty"`
	Text       string    `json:"text,omitempty"`
}

// String is for people.
func (r Record) String() string {
	return fmt.Sprintf("%s/%d/%s %s %s %d %s", r.Pod, r.Generation, r.Container, r.Instance, r.Event, r.Code, r.Text)
}

// Folder is a folder shared by containers and the test, with the same path inside and outside.
type Folder string

// Program is where the containers' program is.
func (f Folder) Program() string { return filepath.Join(string(f), "witness") }

// Records is the file with one line per Record, in the order of writing.
func (f Folder) Records() string { return filepath.Join(string(f), "records") }

// Order is the file that makes an instance end. It contains the exit code.
func (f Folder) Order(instance string) string { return filepath.Join(string(f), "orders", instance) }

// Lock is the file locked by the only instance of a container.
func (f Folder) Lock(pod, container string) string {
	return filepath.Join(string(f), "locks", pod+"."+container)
}

// Mark is the file with a copy of the container's data in its volume.
func (f Folder) Mark(pod string, generation int, container string) string {
	return filepath.Join(string(f), "marks", fmt.Sprintf("%s.%d.%s", pod, generation, container))
}

// Anew is the file that marks a generation as removed and restored, so that its volumes may start
// empty.
func (f Folder) Anew(pod string, generation int) string {
	return filepath.Join(string(f), "anew", fmt.Sprintf("%s.%d", pod, generation))
}

// Make creates the subfolders.
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
