// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/testneed"
)

// startTimeout is generous: a start takes a second on an idle machine.
const startTimeout = 90 * time.Second

// Options configure an Instance. The zero value is usable.
type Options struct {
	// Dir is the folder with containerd, containerd-shim-runc-v2 and ctr. Defaults to
	// $KEELSON_CONTAINERD_DIR. Missing programs are taken from PATH.
	Dir string
	// Parent is the parent of the instance's folder; its path must be short. Defaults to the folder
	// for temporary files.
	Parent string
	// Images are imported at the start, beside BusyboxImage and PauseImage.
	Images []Image
	// Handlers are further names of the runtime handler runc, for RuntimeClasses. Defaults to none.
	Handlers []string
	// HostPorts maps the host ports of pods, which needs the program iptables. The rules stay after
	// Stop in the network namespace of the caller, which should be its own.
	HostPorts bool
}

// Instance is a running containerd. Methods may be called at any time and from several goroutines.
// Calls that start and stop containerd wait for each other.
type Instance struct {
	// Socket is the absolute path of the CRI socket.
	Socket string
	// Version is containerd's, as in "1.6.20" or "2.4.2".
	Version string
	// HasEvents reports whether the runtime offers GetContainerEvents, and
	// RuntimeConfig: containerd 2 does, containerd 1.6 does not.
	HasEvents bool
	// Subnet is the subnet of pods outside the host's network.
	Subnet string
	// Runtime and Images are clients for checks and changes independent of the code under test. The
	// clients stay usable after restarts.
	Runtime runtimeapi.RuntimeServiceClient
	Images  runtimeapi.ImageServiceClient

	layout   layout
	binaries binaries
	slot     *slot
	conn     *grpc.ClientConn

	mu struct {
		sync.Mutex
		cmd     *exec.Cmd     // nil without a process
		exited  chan struct{} // closed when cmd has ended
		stopped bool
	}
}

// Start starts an instance for one test and removes the instance at the end of the test. If the
// test has failed, the end of containerd's log is printed.
func Start(t testing.TB, opts Options) *Instance {
	t.Helper()
	i, err := New(t.Context(), opts)
	failOrSkip(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of containerd's log:\n%s", i.LogTail())
		}
		if err := i.Stop(); err != nil {
			t.Errorf("stop containerd: %v", err)
		}
	})
	return i
}

// failOrSkip ends t if err is not nil. If err is an ErrUnavailable and the environment allows it, t
// is skipped. Otherwise t fails.
func failOrSkip(t testing.TB, err error) {
	t.Helper()
	testneed.SkipOrFail(t, "containerd", err, ErrUnavailable, RequireVariable)
}

// New starts an instance and waits until the CRI answers and the network is ready. The caller must
// call Stop. An [ErrUnavailable] means that the machine cannot run containerd. After any error
// nothing is left behind.
func New(ctx context.Context, opts Options) (*Instance, error) {
	b, err := findBinaries(cmp.Or(opts.Dir, os.Getenv(DirVariable)))
	if err != nil {
		return nil, err
	}
	s, err := takeSlot(slotsDir)
	if err != nil {
		return nil, err
	}
	i, err := newInstance(b, s, opts)
	if err == nil {
		err = i.begin(ctx, opts.Images)
	}
	if err != nil {
		return nil, errors.Join(err, i.Stop())
	}
	return i, nil
}

// newInstance prepares the folder of an instance. The instance has to be stopped
// even if there was an error.
func newInstance(b binaries, s *slot, opts Options) (*Instance, error) {
	i := &Instance{Version: b.version.text, HasEvents: b.version.hasEvents(), binaries: b, slot: s}
	dir, err := makeFolder(opts.Parent)
	if err != nil {
		return i, err
	}
	if err := s.own(dir); err != nil {
		return i, errors.Join(err, os.Remove(dir))
	}
	i.layout = newLayout(dir, s.number)
	i.layout.CNIDir, i.layout.Handlers, i.layout.HostPorts = b.cniDir, opts.Handlers, opts.HostPorts
	if onOverlay(dir) {
		i.layout.Snapshotter = "native" // overlayfs does not stack on itself
	}
	i.Socket, i.Subnet = i.layout.Socket(), i.layout.Subnet
	return i, i.layout.write(b.version)
}

// begin starts containerd for the first time and imports the images.
func (i *Instance) begin(ctx context.Context, images []Image) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := dial(i.Socket)
	if err != nil {
		return err
	}
	i.conn = conn
	i.Runtime, i.Images = runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
	if err := i.Restart(ctx); err != nil {
		return err
	}
	own := []Image{
		{Name: BusyboxImage, Cmd: []string{"sh"}},
		{Name: PauseImage, Entrypoint: []string{"sleep", "2147483647"}},
	}
	return i.Import(ctx, append(own, images...)...)
}

// Endpoint is Socket as a URL: unix:///….
func (i *Instance) Endpoint() string { return "unix://" + i.Socket }

// PID returns the process ID of containerd, for signals such as SIGSTOP, or 0 without a running
// process.
func (i *Instance) PID() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.cmd == nil {
		return 0
	}
	return i.mu.cmd.Process.Pid
}

// Kill kills containerd like a crash, and returns when the process is gone. Containers and shims
// continue to run, and Restart finds them.
func (i *Instance) Kill() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.killLocked()
}

func (i *Instance) killLocked() error {
	if i.mu.cmd == nil {
		return nil
	}
	if err := i.mu.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-i.mu.exited
	i.mu.cmd = nil
	return nil
}

// Restart kills containerd if running, and starts containerd again with the same folders. It waits
// for at most 90 seconds until the CRI answers and the network is ready.
func (i *Instance) Restart(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.stopped {
		return errors.New("the instance has been stopped")
	}
	if err := i.killLocked(); err != nil {
		return err
	}
	if err := i.launchLocked(); err != nil {
		return err
	}
	ctx, timeout := context.WithTimeout(ctx, startTimeout)
	defer timeout()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done, exited := make(chan struct{}), i.mu.exited
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-exited:
			cancel(errors.New("containerd has ended"))
		case <-done:
		}
	})
	err := waitReady(ctx, i.Runtime)
	close(done)
	watcher.Wait()
	if err != nil {
		return fmt.Errorf("wait for containerd %s: %w\n%s", i.Version, err, i.LogTail())
	}
	return nil
}

// launchLocked starts the process, without waiting until ready. The environment contains nothing
// that could change containerd's behaviour.
func (i *Instance) launchLocked() error {
	log, err := os.OpenFile(i.layout.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(i.binaries.containerd, "--config", i.layout.config(), "--log-level", "info")
	cmd.Env = []string{"PATH=" + i.binaries.path, "TMPDIR=" + i.layout.tmp()}
	cmd.Stdout, cmd.Stderr = log, log
	// A terminal's interrupt must reach only the test, because the test still needs containerd.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the process ends by a signal
	}()
	i.mu.cmd, i.mu.exited = cmd, exited
	return nil
}

// Stop kills containerd and all its containers at once, and removes mounts, cgroups, network and
// folders. A second Stop does nothing.
func (i *Instance) Stop() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.stopped {
		return nil
	}
	i.mu.stopped = true
	errs := []error{i.killLocked()}
	if i.conn != nil {
		errs = append(errs, i.conn.Close())
	}
	// If the clean-up of a slot failed, the next start tries again.
	return errors.Join(append(errs, i.slot.cleanUp(), i.slot.release())...)
}

// LogTail returns the last lines of containerd's log.
func (i *Instance) LogTail() string {
	const lines = 60
	text, err := os.ReadFile(i.layout.log())
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(string(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// Import imports images into containerd, and returns when the CRI has the images.
func (i *Instance) Import(ctx context.Context, images ...Image) error {
	file, err := os.CreateTemp(i.layout.tmp(), "import-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := errors.Join(writeArchive(file, i.binaries.busybox, images...), file.Close()); err != nil {
		return err
	}
	if _, err := i.Ctr(ctx, "images", "import", "--snapshotter", i.layout.Snapshotter, file.Name()); err != nil {
		return err
	}
	for _, image := range images {
		for _, name := range image.names() {
			if err := waitImage(ctx, i.Images, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Mirror sends pulls of host's images to the first registry of addresses that answers. The
// registries speak plain HTTP. containerd reads the setting at every pull.
func (i *Instance) Mirror(host string, addresses ...string) error {
	dir := filepath.Join(i.layout.Hosts(), host)
	var text strings.Builder
	for n, address := range addresses {
		if n == 0 {
			fmt.Fprintf(&text, "server = \"http://%s\"\n", addresses[len(addresses)-1])
		}
		fmt.Fprintf(&text, "[host.\"http://%s\"]\ncapabilities = [\"pull\", \"resolve\"]\n", address)
	}
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(text.String()), 0o644))
}

// Ctr runs containerd's ctr command in the CRI's namespace, and returns its output.
func (i *Instance) Ctr(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, i.binaries.ctr, append([]string{"--address", i.Socket, "--namespace", namespace}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
