// SPDX-License-Identifier: Apache-2.0

package process

// presence says what became of a record.
type presence uint8

const (
	absent presence = iota
	present
	corrupt // there, but it cannot be read
)

// facts are what is seen of one container, in the order they are looked at:
// exit before lock before process. The shim changes them in another order
// (lock, process, exit, unlock), which is what makes judge's conclusions safe.
type facts struct {
	exit     presence // exit.json
	locked   bool     // somebody holds the lock
	process  presence // pid.json
	started  bool     // pid.json names the container's process
	shim     bool     // the shim that pid.json names is alive
	rebooted bool     // the sandbox or pid.json is from an earlier boot
}

// verdict is what the facts say.
type verdict uint8

const (
	// verdictCreated: never started, and nobody is starting it.
	verdictCreated verdict = iota
	verdictRunning
	verdictExited
	// verdictUnknown: it may run.
	verdictUnknown
	// verdictSettling: it will be another verdict in a moment.
	verdictSettling
	// verdictLost: the shim died without a word. Whatever is left must be killed,
	// then it is exited.
	verdictLost
	// verdictRebooted: it ran, or was about to, when the machine went down.
	verdictRebooted
	// verdictForgotten: it has exited, but how cannot be read any more.
	verdictForgotten
)

// judge says what became of a container. Invariant: it says created only if no
// process of the container runs and no start that began before can make one.
func judge(f facts) verdict {
	ran := f.process != absent
	switch {
	case f.exit == present:
		return verdictExited
	case f.rebooted && (ran || f.exit == corrupt):
		return verdictRebooted
	case f.rebooted:
		return verdictCreated
	case f.exit == corrupt && !f.locked && !f.shim:
		return verdictForgotten
	case f.shim && f.started && f.exit == absent:
		// With or without the lock: the lock file may have been removed.
		return verdictRunning
	case f.locked && f.process == corrupt:
		return verdictUnknown // there is a shim, and it cannot say more
	case f.locked || f.shim:
		return verdictSettling
	case ran:
		return verdictLost
	default:
		return verdictCreated
	}
}
