// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
)

// The files of a sandbox's folder.
const (
	SandboxFile = "sandbox.json" // Sandbox
	StoppedFile = "stopped.json" // Stopped; only the existence counts
	NetworkFile = "network.json" // Network, written when the network is ready
)

// The files of a container's folder.
const (
	SpecFile    = "spec.json" // Spec, written once by CreateContainer
	ProcessFile = "pid.json"  // Process, written by the shim
	ExitFile    = "exit.json" // Exit, written last by the shim, or by an agent that found the shim dead
	EndFile     = "end"       // End, written last by a shim that dozes, in the place of an Exit
	LockFile    = "shim.log"  // stderr of a shim that crashed, or a copy of EndFile; locked by the agent during the start of the shim, then by the shim
	ExecFile    = "exec"      // exists if Exec was used
	WorkDir     = "work"      // the container's working folder
	OverDir     = "over"      // folders with mount points, laid over folders of the system
)

// ShimName is argument 0 of a shim. Argument 1 is the container's folder.
const ShimName = "keelson-shim"

// NetworkName is argument 0 of the process that keeps the network of a pod. Argument 1 is the
// sandbox's folder, argument 2 is a Users in JSON, and the command of pasta follows.
const NetworkName = "keelson-network"

// Argument 0 of processes that are root of a user namespace with IDs. The other arguments are folders.
const (
	ReclaimName = "keelson-reclaim" // makes their files belong to the agent's user
	MeasureName = "keelson-measure" // prints their disk usage
)

// ShimEnv marks a shim in the shim's environment. Containers do not inherit the mark.
const ShimEnv = "KEELSON_SHIM"

// NapEnv is the number of the descriptor from which a shim that has dozed reads its state, or Born.
const NapEnv = "KEELSON_SHIM_NAP"

// Born is the NapEnv of a shim that has dozed since an agent has started its container.
const Born = "born"

// The signals from an agent to a shim. They are not SIGTERM or SIGINT, which end a program of Go
// that does not handle signals yet, such as a dozing shim that wakes up.
const (
	StopSignal = unix.SIGUSR2 // send the stop signal to the container
	KillSignal = unix.SIGUSR1 // kill every process of the container
)

// EndSignals are signals that end a process and are not meant for a shim. A shim that dozes ignores
// them, because the runtime of Go takes pending ones at once when the shim wakes up.
var EndSignals = []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGXFSZ}

// IDEnv names the variable that marks every process of a container, so that a process is found
// after an escape from the container's session. The value is Spec.ID.
const IDEnv = "KEELSON_CONTAINER_ID"

// The file descriptors of a shim in addition to 0, 1 and 2.
const (
	LockFD   = 3 // Lock.File
	StatusFD = 4 // a pipe; the shim writes one Started and closes the pipe
	NameFD   = 5 // Lock.Name, on systems with names
)

// The file descriptors of a shim that dozes from the start, in addition to 0, 1, 2, LockFD and NameFD.
const (
	StatementFD = 4 // memory for the Statement; it is sealed if the start was completed
	ProgramFD   = 6 // the program of the shim
	SignalFD    = 7 // a signalfd
	StdoutFD    = 8 // the container's output
	StderrFD    = 9
	LogFD       = 10 // the container's log, or /dev/null
	ReportFD    = 11 // memory with the error of the start, or with an End; empty if there was none
	MainFD      = 12 // a pidfd of the main process
	BornFDs     = 13 // the number of descriptors
)

// StatementName is the name of the memory in which a shim keeps its Statement.
const StatementName = "keelson-statement"

// Statement is a shim's description of a running container, in sealed memory that only the shim
// holds open. Unlike the files, no container can change a statement. The statement exists exactly
// while the container runs.
type Statement struct {
	Spec    Spec    `json:"spec"`
	Process Process `json:"process"`
}

// Sandbox is the record written by RunSandbox.
type Sandbox struct {
	UID         string    `json:"uid"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Hostname    string    `json:"hostname,omitempty"`
	HostNetwork bool      `json:"hostNetwork,omitempty"`
	Network     bool      `json:"network,omitempty"` // the pod has a network namespace, see Network
	IDs         *IDs      `json:"ids,omitempty"`     // for the containers, and the network; nil: a single user
	BootID      string    `json:"bootID"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Network names the processes of a pod's network namespace.
type Network struct {
	Keeper proc.Ref `json:"keeper"` // has started the other one and pasta, and ends them
	Inside proc.Ref `json:"inside"` // is a member of the namespace, and does nothing
}

// IDs are subordinate users and groups of the agent's user. In a user namespace that maps them, 0 is the agent's
// user, and 1 is the first of the IDs.
type IDs struct {
	Users  Range `json:"users"`
	Groups Range `json:"groups"`
}

// Range is a range of user or group IDs of the host.
type Range struct {
	First   uint32 `json:"first"`
	Count   uint32 `json:"count"`
	Program string `json:"program"` // the path of newuidmap or newgidmap, which may map the range
}

// Users is the user namespace that owns a network namespace.
type Users struct {
	Own bool `json:"own"`           // there is one; it maps the agent's user to itself, or IDs
	IDs *IDs `json:"ids,omitempty"` // with Own
}

// Stopped is the record written by StopSandbox.
type Stopped struct {
	StoppedAt time.Time `json:"stoppedAt"`
}

// Spec has the facts for running a container and for the container's status.
type Spec struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	RestartCount int32             `json:"restartCount"`
	Hash         string            `json:"hash,omitempty"`
	Image        string            `json:"image,omitempty"`
	ImageID      string            `json:"imageID,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	CreatedAt    time.Time         `json:"createdAt"`

	Args   []string `json:"args"`           // all arguments, the command's name first
	Path   string   `json:"path,omitempty"` // the program, if Args[0] is not the program
	Env    []string `json:"env"`            // the whole environment, NAME=value; may hold secrets
	Dir    string   `json:"dir"`            // working directory, absolute
	Mounts []Mount  `json:"mounts,omitempty"`

	LogPath     string `json:"logPath,omitempty"`     // absolute; empty: output is discarded
	MaxLogSize  int64  `json:"maxLogSize,omitempty"`  // bytes; 0 or less: the log is not rotated
	MaxLogFiles int    `json:"maxLogFiles,omitempty"` // the log and the rotated files
	// MessagePath is the termination message within WorkDir; empty: none.
	MessagePath    string `json:"messagePath,omitempty"`
	FallbackToLogs bool   `json:"fallbackToLogs,omitempty"`
	StopSignal     int    `json:"stopSignal"`

	Walls

	// Sandbox is a copy of the sandbox's record, for the restoration of a damaged record.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
}

// Walls confine the processes of a container. The zero value has none.
type Walls struct {
	NoNewPrivs   bool    `json:"noNewPrivs,omitempty"`
	Capabilities *uint64 `json:"capabilities,omitempty"` // the capabilities that are kept, a bit for each; nil: all
	Files        *Files  `json:"files,omitempty"`
	Scoped       bool    `json:"scoped,omitempty"`  // no signals and no abstract sockets of processes outside
	Seccomp      []byte  `json:"seccomp,omitempty"` // the filter of system calls, as the kernel takes it
	Root         *Root   `json:"root,omitempty"`    // the container's own namespaces; nil: the host's
	Cgroup       *Cgroup `json:"cgroup,omitempty"`  // nil: the agent's
}

// Cgroup is the cgroup of a container, in one or several hierarchies.
type Cgroup struct {
	Folders []string `json:"folders"` // one in each hierarchy; the folders above are those of the pod
	Pod     Limits   `json:"pod"`     // of the pod's cgroup
	Own     Limits   `json:"own"`
}

// Limits are the limits of a cgroup. 0: no limit.
type Limits struct {
	Memory int64 `json:"memory,omitempty"` // bytes
	CPU    int64 `json:"cpu,omitempty"`    // thousandths of a core
	Weight int64 `json:"weight,omitempty"` // the request, in thousandths of a core
	PIDs   int64 `json:"pids,omitempty"`   // processes and threads
}

// Any reports whether there is a wall.
func (w Walls) Any() bool {
	return w.NoNewPrivs || w.Capabilities != nil || w.Files != nil || w.Scoped || len(w.Seccomp) > 0 || w.Root != nil || w.Cgroup != nil
}

// Root is the root file system of a container in a mount namespace of its own, and the other
// namespaces that come with it.
type Root struct {
	Dir string `json:"dir"` // the folder of the host that becomes /
	// Lower is the tree of an image. If it is set, / is an overlay of Lower and Upper, Dir is an
	// empty folder, and Scratch is a folder for the kernel.
	Lower   string `json:"lower,omitempty"`
	Upper   string `json:"upper,omitempty"`
	Scratch string `json:"scratch,omitempty"`

	Owners []Owner `json:"owners,omitempty"` // of files of Lower

	ReadOnly bool   `json:"readOnly,omitempty"`
	Mounts   []Bind `json:"mounts"` // in this order
	Hostname string `json:"hostname,omitempty"`

	OwnUser bool     `json:"ownUser,omitempty"` // a user namespace, which maps UID and GID to the agent's, or IDs
	IDs     *IDs     `json:"ids,omitempty"`     // of the sandbox
	UID     uint32   `json:"uid"`
	GID     uint32   `json:"gid"`
	Groups  []uint32 `json:"groups,omitempty"` // supplementary groups, without OwnUser

	// Network is a process in the network namespace of the pod. nil: the host's network.
	Network *proc.Ref `json:"network,omitempty"`

	HostPID bool `json:"hostPID,omitempty"`
	HostIPC bool `json:"hostIPC,omitempty"`
}

// Owner is the owner of a file of an image.
type Owner struct {
	Path string `json:"path"` // below the image's root, without links
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
}

// MapsIDs reports whether the user namespace maps IDs: the container's root may change to another user.
func (r *Root) MapsIDs() bool { return r.OwnUser && r.IDs != nil && r.UID == 0 && r.GID == 0 }

// Resolve makes a file of the host the container's /etc/resolv.conf.
func (r *Root) Resolve(file string) {
	const at = "/etc/resolv.conf"
	r.Mounts = slices.DeleteFunc(r.Mounts, func(b Bind) bool { return b.To == at && b.From == at })
	// Behind the folder of the system, and before the pod's own mounts, which may cover the file.
	i := slices.IndexFunc(r.Mounts, func(b Bind) bool { return b.From == "/etc" && b.To == "/etc" })
	r.Mounts = slices.Insert(r.Mounts, i+1, Bind{From: file, To: at, File: true, ReadOnly: true})
}

// Bind is a path of the host that is mounted in a container.
type Bind struct {
	From     string `json:"from"`
	To       string `json:"to"`             // absolute and clean
	Over     string `json:"over,omitempty"` // a folder that is laid over From, which cannot be written
	File     bool   `json:"file,omitempty"` // From is no folder
	ReadOnly bool   `json:"readOnly,omitempty"`
	Device   bool   `json:"device,omitempty"`  // devices may be opened
	Follow   bool   `json:"follow,omitempty"`  // later mounts of the host below From appear
	Passing  bool   `json:"passing,omitempty"` // the files end with the pod
}

// Files are the host's paths that a container may use, with everything below them.
type Files struct {
	Read  []string `json:"read,omitempty"` // read and execute; empty: every path
	Write []string `json:"write"`          // also read
}

// Program returns the name or path of the program to execute.
func (s *Spec) Program() string { return cmp.Or(s.Path, s.Args[0]) }

// Mount is a path of the host that appears in the working folder.
type Mount struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"` // absolute and clean
}

// Process names the processes of a container. The shim writes the record before the start of the
// container with a zero Main, and again after the start.
type Process struct {
	BootID    string    `json:"bootID"`
	Shim      proc.Ref  `json:"shim"`
	Main      proc.Ref  `json:"main"`
	StartedAt time.Time `json:"startedAt"`      // zero if Main is zero
	Exit      *Exit     `json:"exit,omitempty"` // a copy of exit.json, for the restoration of a damaged record
}

// Exit is the end of a container.
type Exit struct {
	Code       int32     `json:"code"` // 128+n for signal n
	Reason     string    `json:"reason"`
	Message    string    `json:"message,omitempty"` // at most 4096 bytes
	FinishedAt time.Time `json:"finishedAt"`
}

// MaxMessage is the kubelet's limit of a termination message in bytes.
const MaxMessage = 4096

// Clip returns the last n bytes of text, whole characters only.
func Clip(text string, n int) string {
	if len(text) > n {
		text = strings.ToValidUTF8(text[len(text)-n:], "")
	}
	return text
}

// Started is a shim's report to the agent. Exactly one field is set.
type Started struct {
	PID   int    `json:"pid,omitempty"`   // the container's main process, after exec
	Error string `json:"error,omitempty"` // the reason of a failed start; the shim then exits
}

// Every record written by this package has these fields.
func (s Sandbox) complete() bool { return s.UID != "" && s.BootID != "" && !s.CreatedAt.IsZero() }
func (s Spec) complete() bool    { return s.ID != "" && s.Name != "" && !s.CreatedAt.IsZero() }
func (n Network) complete() bool { return n.Keeper.PID > 0 && n.Inside.PID > 0 }
func (p Process) complete() bool { return p.BootID != "" && p.Shim.PID > 0 }
func (e Exit) complete() bool    { return !e.FinishedAt.IsZero() }
