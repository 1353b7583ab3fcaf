// SPDX-License-Identifier: Apache-2.0

package runtimetest

// rule is a sentence of the seam, quoted in the message of every check of it.
type rule string

// The rules, in the words of package runtime (backend.go, status.go, spec.go).
const (
	ruleName       rule = "Name is a short constant word, the Runtime of every ContainerID"
	ruleRunSandbox rule = "RunSandbox makes a sandbox that is ready when it returns"
	ruleSandboxMet rule = "SandboxStatus: Attempt and HostNetwork are those it was created with; ID is not empty and never reused"
	ruleConcurrent rule = "all methods are safe for concurrent use"
	ruleDurable    rule = "records are durable: what a method has done is what List and PodStatus report, also from a new value over the same state after the process died at any point"
	ruleCreated    rule = "a created container that was never started is StateCreated"
	ruleIdempotent rule = "Stop and Remove are idempotent; they return nil or ErrNotFound for what is gone"
	ruleStop       rule = "StopContainer returns nil only when the instance is exited"
	ruleGrace      rule = "StopContainer asks politely, waits at most grace, then kills"
	ruleStopCtx    rule = "a ctx that ends first makes StopContainer return ctx's error and leaves the instance stopping or running"
	ruleStopMade   rule = "a container that is merely created becomes exited or is left created by a stop; it can never be started afterwards by a start that was under way"
	ruleSandStop   rule = "StopSandbox kills what still runs in the sandbox, at once, and makes it not ready"
	ruleRemove     rule = "RemoveSandbox and RemoveContainer stop first (no grace)"
	ruleRemoveSand rule = "RemoveSandbox also removes the records of its containers"
	ruleKeepLogs   rule = "RemoveContainer keeps the log files"
	ruleOwner      rule = "statuses passed across belong to the receiver"
	ruleStart      rule = "StartContainer starts a created container; starting one that is not created is an error"
	ruleStartFail  rule = "when StartContainer fails the container stays created"
	ruleNotFound   rule = "ErrNotFound says that the sandbox or container does not exist"
	ruleList       rule = "List reports every pod that has a sandbox or container; IDs, names, sandboxes and states suffice"
	ruleRunOnly    rule = "RunningOnly leaves out sandboxes that are not ready and containers that are neither running nor unknown"
	rulePodStatus  rule = "PodStatus reports one pod in full"
	ruleUnknownUID rule = "an unknown UID is an empty status with that UID, not an error"
	ruleOrder      rule = "backends return both slices newest first (CreatedAt descending, then ID descending)"
	ruleObserved   rule = "ObservedAt is taken before the backend looks"
	ruleID         rule = "ContainerID.ID is unique within its backend, never reused"
	ruleState      rule = "a state only ever moves created → running → exited, or to unknown"
	ruleTimes      rule = "StartedAt is zero while created, FinishedAt is zero unless exited, and CreatedAt ≤ StartedAt ≤ FinishedAt"
	ruleExit       rule = "ExitCode and Reason of an exited container are true: the process's code (128+n for signal n), Completed for 0 and Error otherwise"
	ruleRoundTrip  rule = "Name, Sandbox, Hash, RestartCount and Annotations are those the container was created with"
	ruleSpec       rule = "ContainerSpec: Command, Args, Env and WorkingDir are resolved and arrive in the process as they are"
	ruleLog        rule = "LogPath is the container's log file in the CRI's format: '<RFC3339Nano> <stdout|stderr> <P|F> <text>'"
	ruleWatch      rule = "Watch hints that something about a pod may have changed by itself; changes after the first hints are not missed while the stream lasts"
	ruleWatchAll   rule = "Watch begins with a hint for every pod that exists"
	ruleWatchEnd   rule = "Watch yields until ctx ends (then it just stops)"
	ruleExec       rule = "Exec runs a command beside a running container, with its environment and working directory, and returns the output and the exit code"
	ruleExecErr    rule = "Exec's err is non-nil only if the command could not be run or ctx ended"
	ruleExecCtx    rule = "when ctx ends Exec's command and what it started are killed"
	ruleExecCut    rule = "Exec cuts each stream at 16 KiB and discards the rest"
	ruleCheck      rule = "a refusal by CheckPod is an *UnsupportedError that lists every field; RunSandbox and CreateContainer return the same error"
	ruleSecret     rule = "EnvVar: values may be secrets, they go into no log, event or error"
	ruleLogDir     rule = "SandboxSpec.LogDirectory: the backend makes it"
)

// What the seam implies without saying it.
const (
	impliedCreate  rule = "(implied) a container can be created in a ready sandbox"
	impliedNoStart rule = "(implied) a program that does not exist is a failed start, not an exit"
	impliedIdle    rule = "(implied) a sandbox stays ready until it is stopped or the machine reboots"
	impliedStopped rule = "(implied) nothing starts in a sandbox that is not ready"
	impliedApart   rule = "(implied) removing one thing leaves all others alone"
	impliedIP      rule = "(implied) a ready sandbox whose network is known has an IP"
	impliedNoLog   rule = "(implied) without a LogPath there is no log, and no other difference"
	impliedAlone   rule = "(implied) when an instance is exited nothing that it started runs any more"
	impliedPlain   rule = "(implied) a pod of plain containers is refused by nobody"
	impliedReboot  rule = "(implied) after a reboot no sandbox is ready and nothing runs: what ran is exited or unknown"
)
