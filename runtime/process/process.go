// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/shim"
)

// Name is the runtime's name, as in "process://…".
const Name = "process"

// ErrNoShim is why StartContainer fails in a program that cannot start shims.
var ErrNoShim = errors.New("process.Main was not called: call it first in main (in tests: in TestMain), or set Options.Shim")

// mainCalled is the one thing that belongs to the process and not to a Runtime:
// whether executing this program again would make a shim of it, or an agent
// that does the same again and again.
var mainCalled atomic.Bool

// Main makes this program able to be its own shim. It must be called first in
// main, and in TestMain of tests: when the process was started to be a shim it
// runs that and ends the process; else it returns at once.
func Main() {
	shim.Main()
	mainCalled.Store(true)
}

// Options are what New needs.
type Options struct {
	// Root is the folder of the backend's state, absolute. It is made when first
	// needed, and belongs to one backend. Required.
	Root string

	// HostIPs are reported as the IPs of every pod, primary first, since pods
	// share the host's network. Defaults to none: the network is not known.
	HostIPs []string

	// Lenient runs pods with fields that cannot be honoured, and logs which ones
	// for each sandbox. Defaults to refusing them, see CheckPod.
	Lenient bool

	// Shim is the executable that becomes a container's shim, absolute: a program
	// whose main is shim.Main(). Defaults to the running program, which must
	// have called Main.
	Shim string

	// MaxLogSize is how many bytes a container's log file may have before its shim
	// renames it to <log>.<yyyymmdd-hhmmss>, as the kubelet does, and begins a new
	// one. A single line may have more. Negative: no limit, for who rotates logs
	// otherwise. Defaults to 10 MiB.
	MaxLogSize int64

	// MaxLogFiles is how many log files of one container instance there may be, the
	// one being written included; the oldest are removed. At least 2. Defaults to 5.
	MaxLogFiles int

	// Logger defaults to none.
	Logger *zap.Logger
}

// Runtime runs one OS process per container. It implements runtime.Runtime,
// Watcher, Checker and Execer, and logs.LogReopener. It has no goroutine but
// those of calls under way, and keeps nothing in memory that is not on disk, so
// any number of values over one Root agree.
type Runtime struct {
	root    string
	hostIPs []string
	lenient bool
	shim    string
	log     *zap.Logger

	maxLogSize  int64
	maxLogFiles int

	// pods keeps a pod's folder from being removed while a sandbox is put there.
	pods sync.Mutex

	mu struct {
		sync.Mutex
		reported map[string]bool // broken records that were logged
		stuck    map[string]bool // containers whose start did not settle
		watch    *proc.Set       // of the Watch under way; nil if there is none
	}
}

var _ interface {
	runtime.Runtime
	runtime.Watcher
	runtime.Checker
	runtime.Execer
} = (*Runtime)(nil)

// New returns a backend. It looks at no disk: what is wrong with Root shows at
// the first call that needs it.
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
	for i, ip := range opts.HostIPs {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil, fmt.Errorf("process: Options.HostIPs[%d]: %q is not an IP address", i, ip)
		}
	}
	r := &Runtime{
		root: filepath.Clean(opts.Root), hostIPs: slices.Clone(opts.HostIPs),
		lenient: opts.Lenient, shim: opts.Shim, log: opts.Logger,
		maxLogSize:  cmp.Or(opts.MaxLogSize, 10<<20),
		maxLogFiles: cmp.Or(opts.MaxLogFiles, 5),
	}
	if r.log == nil {
		r.log = zap.NewNop()
	}
	r.mu.reported, r.mu.stuck = map[string]bool{}, map[string]bool{}
	return r, nil
}

// Name returns "process".
func (r *Runtime) Name() string { return Name }

// report logs a broken record, once for each file.
func (r *Runtime) report(path string, err error) {
	r.mu.Lock()
	seen := r.mu.reported[path]
	r.mu.reported[path] = true
	r.mu.Unlock()
	if !seen {
		r.log.Warn("Broken record", zap.String("path", path), zap.Error(err))
	}
}
