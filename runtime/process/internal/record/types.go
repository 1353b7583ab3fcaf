// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"time"

	"github.com/keelson-dev/keelson/runtime/process/internal/proc"
)

// The files of a sandbox's folder.
const (
	SandboxFile = "sandbox.json" // Sandbox
	StoppedFile = "stopped.json" // Stopped; its presence is what counts
)

// The files of a container's folder.
const (
	SpecFile    = "spec.json" // Spec, written once by CreateContainer
	ProcessFile = "pid.json"  // Process, written by the shim
	ExitFile    = "exit.json" // Exit, written last by the shim, or by who found it dead
	LockFile    = "lock"      // held by the agent while it starts the shim, then by the shim
	ExecFile    = "exec"      // present: Exec ran something beside the container
	ShimLogFile = "shim.log"  // stderr of the shim; empty unless it crashed
	WorkDir     = "work"      // the container's working folder
)

// ShimName is argument 0 of a shim. Argument 1 is the container's folder.
const ShimName = "keelson-shim"

// ShimEnv marks a shim, in its environment only: nothing inherits it.
const ShimEnv = "KEELSON_SHIM"

// IDEnv names the variable that marks every process of a container, so that
// what escaped from its session can still be found. Its value is Spec.ID.
const IDEnv = "KEELSON_CONTAINER_ID"

// The file descriptors a shim inherits, beside the usual three.
const (
	LockFD   = 3 // the lock, held
	StatusFD = 4 // where the shim writes one Started, then closes
)

// Sandbox is what RunSandbox recorded.
type Sandbox struct {
	UID         string    `json:"uid"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Hostname    string    `json:"hostname,omitempty"`
	HostNetwork bool      `json:"hostNetwork,omitempty"`
	BootID      string    `json:"bootID"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Stopped is what StopSandbox recorded.
type Stopped struct {
	StoppedAt time.Time `json:"stoppedAt"`
}

// Spec is everything that is needed to run a container and to report it.
type Spec struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	RestartCount int32             `json:"restartCount"`
	Hash         string            `json:"hash,omitempty"`
	Image        string            `json:"image,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	CreatedAt    time.Time         `json:"createdAt"`

	Args   []string `json:"args"`           // all of them, the command's name first
	Path   string   `json:"path,omitempty"` // the program, if it is not Args[0] that names it
	Env    []string `json:"env"`            // the whole environment, NAME=value; may hold secrets
	Dir    string   `json:"dir"`            // working directory, absolute
	Mounts []Mount  `json:"mounts,omitempty"`

	LogPath     string `json:"logPath,omitempty"`     // absolute; empty: output is discarded
	MaxLogSize  int64  `json:"maxLogSize,omitempty"`  // bytes; 0 or less: the log is not rotated
	MaxLogFiles int    `json:"maxLogFiles,omitempty"` // the log and what was rotated from it
	// MessagePath is the termination message within WorkDir; empty: none.
	MessagePath    string `json:"messagePath,omitempty"`
	FallbackToLogs bool   `json:"fallbackToLogs,omitempty"`
	StopSignal     int    `json:"stopSignal"`
	NoNewPrivs     bool   `json:"noNewPrivs,omitempty"`
}

// Program returns the name or path of the program to execute.
func (s *Spec) Program() string { return cmp.Or(s.Path, s.Args[0]) }

// Mount is a path of the host that appears in the working folder.
type Mount struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"` // absolute and clean
}

// Process says which processes run a container. The shim writes it before it
// starts the container (Main is zero then), and again when it has.
type Process struct {
	BootID    string    `json:"bootID"`
	Shim      proc.Ref  `json:"shim"`
	Main      proc.Ref  `json:"main"`
	StartedAt time.Time `json:"startedAt"` // zero as long as Main is
}

// Exit is how a container ended.
type Exit struct {
	Code       int32     `json:"code"` // 128+n for signal n
	Reason     string    `json:"reason"`
	Message    string    `json:"message,omitempty"` // at most 4096 bytes
	FinishedAt time.Time `json:"finishedAt"`
}

// Started is what a shim tells who started it. Either field is set.
type Started struct {
	PID   int    `json:"pid,omitempty"`   // the container's main process, which has been exec'ed
	Error string `json:"error,omitempty"` // why it was not; the shim is gone soon
}
