// SPDX-License-Identifier: Apache-2.0

package hotplug

import "time"

// Annotation of a pod has its Policy. Pods without the annotation are not watched.
const Annotation = "keelson.dev/unplugged"

// Policy says how a pod reacts when a device is unplugged.
type Policy string

const (
	// Keep lets the containers run. Containers are restarted only if the device returns with
	// another device number, because the containers may open only the old number.
	Keep Policy = "Keep"
	// Stop stops the containers when the device is unplugged, and starts them when it is back.
	Stop Policy = "Stop"
	// Restart lets the containers run, and restarts them when the device is back.
	Restart Policy = "Restart"
)

const (
	settleTime = 100 * time.Millisecond // shortest time without a change before a restart
	settleMost = 30 * time.Second       // longest such time
	calmTime   = time.Minute            // without a restart for this long, settleTime counts again
)

// Facts are the devices of a pod, as they were seen at one moment.
type Facts struct {
	// Missing names a device that is not plugged in and why. "" means that all devices are present.
	Missing string
	// Nodes identifies the device nodes. Unplugging and plugging in a device gives another text.
	Nodes string
	// Numbers are the types, major and minor numbers of the devices.
	Numbers string
}

// Record is the state of a pod. The zero value is a pod without started containers.
type Record struct {
	Has       Facts // devices of the running containers; the zero value: no container was started
	Seen      Facts // devices at the last decision
	Changed   time.Time
	Restarted time.Time
	Settle    time.Duration
}

// Action is the reaction to Facts.
type Action struct {
	Stop  bool          // the containers are to be stopped; the caller calls Record.Stopped afterwards
	Start bool          // containers may be started
	After time.Duration // decide again after this time. 0 means after the next change only
}

// Decide is pure. It returns the next action for a pod.
func Decide(p Policy, r Record, f Facts, now time.Time) (Record, Action) {
	if f != r.Seen {
		r.Seen, r.Changed = f, now
	}
	isRunning := r.Has != Facts{}
	switch {
	case f.Missing != "" && !isRunning:
		return r, Action{}
	case f.Missing != "":
		r.Has.Nodes = "" // a new device node may have the inode number of the old one
		return r, Action{Stop: p == Stop, Start: p != Stop}
	case isRunning && (f == r.Has || p == Keep && f.Numbers == r.Has.Numbers):
		r.Has = f
		return r, Action{Start: true}
	case isRunning: // other device nodes
		if wait := r.wait(now); wait > 0 {
			return r, Action{Start: true, After: wait}
		}
		return r, Action{Stop: true}
	}
	if wait := r.wait(now); wait > 0 {
		return r, Action{After: wait}
	}
	r.Has = f
	return r, Action{Start: true}
}

// Stopped returns the record after the containers were stopped. If the last stop was less than
// calmTime ago, Stopped doubles the time for which the devices have to be stable before the next
// start.
func (r Record) Stopped(now time.Time) Record {
	if r.Restarted.IsZero() || now.Sub(r.Restarted) > calmTime {
		r.Settle = settleTime
	} else {
		r.Settle = min(2*r.Settle, settleMost)
	}
	r.Has, r.Restarted = Facts{}, now
	return r
}

// wait returns how much longer the devices have to be stable. The first start does not wait.
func (r Record) wait(now time.Time) time.Duration {
	if r.Restarted.IsZero() && (r.Has == Facts{}) {
		return 0
	}
	return r.Changed.Add(max(r.Settle, settleTime)).Sub(now)
}
