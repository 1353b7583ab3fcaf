// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/diskuse"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/cgroup"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/walls"
	"github.com/keelson-dev/keelson/runtime/process/shim"
)

// Name is the runtime's name, as in "process://…".
const name = "process"

// ErrNoShim is the error of StartContainer in a program that cannot start shims.
var ErrNoShim = errors.New("process.Main was not called: call it first in main (in tests: in TestMain), or set Options.Shim")

var errNotConfined = errors.New("Options.Confine is not set")

// mainCalled is the only state that belongs to the process and not to a Runtime. If mainCalled is
// true, a second process of this program becomes a shim. Otherwise the second process would be
// another agent, which starts a third process, and so on.
var mainCalled atomic.Bool

// Main allows this program to be its own shim. Call Main first in main, and in TestMain of tests.
// A process that was started as a shim does not reach Main in main: the initialization of package
// shim runs the shim and ends the process.
func Main() {
	shim.Main()
	mainCalled.Store(true)
}

// Options configure New.
type Options struct {
	// Root is the folder of the backend's state, an absolute path. The first use makes the
	// folder. The folder belongs to one backend. Required.
	Root string

	// HostIPs are reported as the IPs of every pod, primary first, because pods share the
	// host's network. Without HostIPs the network of a sandbox is reported as unknown.
	HostIPs []string

	// Lenient runs pods with fields that cannot be honoured, and logs the ignored fields of
	// each sandbox. By default such pods are refused, see CheckPod.
	Lenient bool

	// Shim is the absolute path of a program whose main is shim.Main(). A container's shim
	// executes this program. Defaults to the running program, which must have called Main.
	Shim string

	// MaxLogSize is the greatest size of a container's log file in bytes. Before a line
	// exceeds the size, the shim renames the file to <log>.<yyyymmdd-hhmmss>, as the
	// kubelet does, and begins a new file. A single line may be longer. Negative: no limit,
	// for callers that rotate logs themselves. Defaults to 10 MiB.
	MaxLogSize int64

	// MaxLogFiles is the greatest number of log files of one container instance, including
	// the current file. The oldest files are removed. At least 2. Defaults to 5.
	MaxLogFiles int

	// Confine puts every container behind all walls of this package, and not only behind the
	// walls that the container's security context asks for, see doc.go. Needs Landlock ABI 6
	// (Linux 6.12).
	Confine bool

	// Images supplies the root file systems of containers. A container without a command then
	// runs the command of its image. Needs Confine and namespaces. Without Images, the image of a
	// container is ignored. If this process is not root, and its user has subordinate IDs in /etc/subuid
	// and /etc/subgid, the root of a container may change to other users. Needs newuidmap and newgidmap
	// then (shadow 4.0 or newer). See docs/images.md.
	Images Images

	// Pasta is the absolute path of the program pasta (https://passt.top), which connects the network
	// namespaces of pods without rights. With Pasta, a pod without hostNetwork has a network namespace
	// of its own, with the addresses of HostIPs; hostPorts lead to its containers. Each such pod
	// costs about 30 MiB for pasta. Needs Confine, namespaces and /dev/net/tun. Without Pasta, every
	// pod uses the host's network.
	Pasta string

	// Cgroup is a cgroup such as "/agents/one", an absolute path below the mount points of the
	// hierarchies. Each container has a cgroup below, with the container's limits, and each pod has
	// one with the limits of spec.resources. A missing Cgroup is made if the agent's user may do
	// so. In cgroup version 2, Cgroup must have no processes of its own, and must be delegated to
	// the agent's user: a process can be moved only between cgroups that the user may write to.
	// Without Cgroup, pods with limits are refused. Linux only.
	Cgroup string

	// PodPIDs is the greatest number of processes and threads of a pod. Needs Cgroup. 0: no limit.
	PodPIDs int64

	// SeccompRoot is the folder of the profiles that a securityContext names with type
	// Localhost, an absolute path. Without SeccompRoot such containers are refused.
	SeccompRoot string

	// Logger defaults to none.
	Logger *zap.Logger
}

// Runtime runs one OS process per container. It implements runtime.Runtime, CompleteWatcher, Checker,
// Execer, Updater, Auditor and PodDialer, logs.LogReopener, and on Linux stats.Reader and MemoryMeter. A Runtime has no goroutine after
// a call has returned. All state is on disk, so several Runtimes of one Root agree.
type Runtime struct {
	root    string
	hostIPs []string
	lenient bool
	shim    string
	log     *zap.Logger

	shimWorks atomic.Bool // a container was started by Options.Shim, so it is a shim

	host        walls.Host
	confine     bool
	seccompRoot string
	images      Images
	ids         *record.IDs // nil: a container has a single user
	users       *os.File    // a user namespace that maps ids
	pasta       string
	cgroup      *cgroup.Parent // nil without Options.Cgroup
	podPIDs     int64

	maxLogSize  int64
	maxLogFiles int

	disks diskuse.Meter // of working folders

	// pods prevents the removal of a pod's folder while a sandbox is placed in the folder.
	pods sync.Mutex

	mu struct {
		sync.Mutex
		reported map[string]bool   // broken records that were logged
		stuck    map[string]bool   // containers whose start did not settle
		watch    *proc.Set         // of the running Watch; nil without a running Watch
		filters  map[string][]byte // of RuntimeDefault, by capabilities
	}
}

var _ interface {
	runtime.Runtime
	runtime.CompleteWatcher
	runtime.Checker
	runtime.Execer
	runtime.Updater
	runtime.Auditor
} = (*Runtime)(nil)

// New returns a backend, or an error that names the invalid option. New does not read the disk. An
// unusable Root fails the first call that needs the folder.
func New(opts Options) (*Runtime, error) {
	switch {
	case opts.Root == "":
		return nil, errors.New("process: Options.Root is required")
	case !filepath.IsAbs(opts.Root):
		return nil, fmt.Errorf("process: Options.Root: %q is not absolute", opts.Root)
	case opts.Shim != "" && !filepath.IsAbs(opts.Shim):
		return nil, fmt.Errorf("process: Options.Shim: %q is not absolute", opts.Shim)
	case opts.MaxLogFiles != 0 && opts.MaxLogFiles < 2:
		return nil, fmt.Errorf("process: Options.MaxLogFiles is %d: want 2 or more", opts.MaxLogFiles)
	}
	if opts.SeccompRoot != "" && !filepath.IsAbs(opts.SeccompRoot) {
		return nil, fmt.Errorf("process: Options.SeccompRoot: %q is not absolute", opts.SeccompRoot)
	}
	host := walls.Probe()
	if why := host.UnmetConfined(); opts.Confine && why != "" {
		return nil, fmt.Errorf("process: Options.Confine: %s", why)
	}
	var noNamespaces error
	if opts.Confine {
		host, noNamespaces = host.WithNamespaces()
	}
	if opts.Images != nil && !host.Namespaces {
		return nil, fmt.Errorf("process: Options.Images: needs Options.Confine and namespaces: %w", cmp.Or(noNamespaces, errNotConfined))
	}
	switch {
	case opts.Pasta == "":
	case !filepath.IsAbs(opts.Pasta):
		return nil, fmt.Errorf("process: Options.Pasta: %q is not absolute", opts.Pasta)
	case !host.Namespaces:
		return nil, fmt.Errorf("process: Options.Pasta: needs Options.Confine and namespaces: %w", cmp.Or(noNamespaces, errNotConfined))
	}
	group, err := openCgroup(opts)
	if err != nil {
		return nil, err
	}
	for i, ip := range opts.HostIPs {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil, fmt.Errorf("process: Options.HostIPs[%d]: %q is not an IP address", i, ip)
		}
	}
	r := &Runtime{
		root: filepath.Clean(opts.Root), hostIPs: slices.Clone(opts.HostIPs),
		lenient: opts.Lenient, shim: opts.Shim, log: opts.Logger,
		host: host, confine: opts.Confine, seccompRoot: opts.SeccompRoot, images: opts.Images, pasta: opts.Pasta,
		cgroup: group, podPIDs: opts.PodPIDs,
		maxLogSize:  cmp.Or(opts.MaxLogSize, 10<<20),
		maxLogFiles: cmp.Or(opts.MaxLogFiles, 5),
	}
	if r.log == nil {
		r.log = zap.NewNop()
	}
	if opts.Images != nil && host.OwnUser() {
		if r.ids, r.users, err = subordinateIDs(); err != nil {
			r.ids = nil
			r.log.Info("A container of an image has a single user", zap.Error(err))
		}
	}
	if noNamespaces != nil {
		r.log.Info("Containers have no namespaces of their own, and share the host's paths and processes", zap.Error(noNamespaces))
	}
	r.disks.Blocked = r.measure
	r.mu.reported, r.mu.stuck = map[string]bool{}, map[string]bool{}
	r.mu.filters = map[string][]byte{}
	return r, nil
}

// Name returns "process".
func (r *Runtime) Name() string { return name }

// report logs a broken record. Each file is logged once.
func (r *Runtime) report(path string, err error) {
	r.mu.Lock()
	seen := r.mu.reported[path]
	r.mu.reported[path] = true
	r.mu.Unlock()
	if !seen {
		r.log.Warn("Broken record", zap.String("path", path), zap.Error(err))
	}
}
