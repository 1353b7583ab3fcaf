// SPDX-License-Identifier: Apache-2.0

package process

// presence is the state of a record on disk.
type presence uint8

const (
	absent presence = iota
	present
	corrupt // the record exists and cannot be read
)

// facts are the observations of one container. They are read in this order: exit, lock, process,
// statement. The shim changes them in another order: lock, process, statement, no statement, exit,
// unlock. judge's conclusions are safe because of these two orders.
type facts struct {
	exit     presence // exit.json
	locked   bool     // the lock is held
	process  presence // pid.json
	started  bool     // pid.json names the container's process
	shim     bool     // the shim runs, according to the kernel
	stated   bool     // the shim has a statement, so the container runs
	searched bool     // the search for the shim covered all processes
	rebooted bool     // the sandbox or pid.json is from an earlier boot
}

// verdict is the state of a container that follows from the facts.
type verdict uint8

const (
	// verdictCreated: never started, and no start is under way.
	verdictCreated verdict = iota
	verdictRunning
	verdictExited
	// verdictUnknown: the container may run.
	verdictUnknown
	// verdictSettling: a start or an end is under way, and another verdict follows.
	verdictSettling
	// verdictLost: the shim died without an exit record. The remaining processes must be
	// killed. Then the container is exited.
	verdictLost
	// verdictRebooted: the container ran or was starting when the machine went down.
	verdictRebooted
	// verdictForgotten: the container has exited, and the exit record is unreadable.
	verdictForgotten
)

// judge returns the state of a container. judge returns created only if no process of the container
// runs and no earlier start can make a process. judge returns exited only if no shim runs, because a
// container can forge records, and because a shim ends after its record is on the disk.
func judge(f facts) verdict {
	ran := f.process != absent
	switch {
	case f.stated:
		return verdictRunning
	case f.exit == present && !f.locked && !f.shim:
		return verdictExited
	case f.exit == present && f.shim && f.started:
		return verdictRunning // until the record is on the disk
	case f.exit == present:
		return verdictSettling // until the shim has ended
	case f.rebooted && (ran || f.exit == corrupt):
		return verdictRebooted
	case f.rebooted:
		return verdictCreated
	case f.exit == corrupt && !f.locked && !f.shim:
		return verdictForgotten
	case f.shim && f.started && f.exit == absent:
		// The lock does not matter here: the lock file may have been removed.
		return verdictRunning
	case f.locked && f.process == corrupt && f.searched:
		return verdictUnknown // the shim runs and has no statement
	case f.locked || f.shim:
		return verdictSettling
	case ran:
		return verdictLost
	default:
		return verdictCreated
	}
}
