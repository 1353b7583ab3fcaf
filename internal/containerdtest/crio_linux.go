// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CRIODirVariable names the folder with crio and pinns; e2e/crio.sh builds one.
const CRIODirVariable = "KEELSON_CRIO_DIR"

// The network and the lock of CRI-O. A machine has one instance at a time.
const (
	crioNetwork = "keelsoncrio"
	crioSubnet  = "10.89.0.0/24"
	crioLock    = "/run/keelson-criotest.lock"
)

// CRIO is a running CRI-O with conmon and runc. Its image BusyboxImage is on the node.
type CRIO struct {
	// Socket is the absolute path of the CRI socket.
	Socket string
	// Shared is the absolute path of a folder. CRI-O, which has a mount namespace of its own, sees the
	// mounts below this folder, such as volumes.
	Shared string
	// Runtime and Images are clients for checks independent of the code under test.
	Runtime runtimeapi.RuntimeServiceClient
	Images  runtimeapi.ImageServiceClient

	layout crioLayout
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
	conn   *grpc.ClientConn
	lock   *os.File
}

// Endpoint is Socket as a URL: unix:///….
func (c *CRIO) Endpoint() string { return "unix://" + c.Socket }

// StartCRIO starts a CRI-O for one test and removes the instance at the end of the test. Images can
// be pulled from the given registries. Without $KEELSON_CRIO_DIR or conmon, the test is skipped.
// While another CRI-O of this package runs, StartCRIO waits.
func StartCRIO(t testing.TB, registries ...*Registry) *CRIO {
	t.Helper()
	if os.Getenv(CRIODirVariable) == "" {
		t.Skipf("%s is not set (e2e/crio.sh builds a CRI-O)", CRIODirVariable)
	}
	if _, err := exec.LookPath("conmon"); err != nil {
		t.Skip("CRI-O needs conmon (Debian: apt-get install conmon)")
	}
	own := StartRegistry(t, nil, Image{Name: "busybox:1", Cmd: []string{"sh"}}, Image{Name: "pause:1", Entrypoint: []string{"sleep", "2147483647"}})
	c, err := newCRIO(t.Context(), slices.Insert(slices.Clone(registries), 0, own))
	failOrSkip(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of CRI-O's log:\n%s", c.logTail())
		}
		if err := c.stop(); err != nil {
			t.Errorf("stop CRI-O: %v", err)
		}
	})
	return c
}

// findCRIO returns a layout with the paths of all programs. An ErrUnavailable names every missing
// program.
func findCRIO(dir string) (crioLayout, error) {
	b, err := findBinaries("")
	if err != nil {
		return crioLayout{}, err
	}
	var missing []string
	find := func(name string) string {
		for _, dir := range append([]string{dir}, filepath.SplitList(b.path)...) {
			if file, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return file
			}
		}
		missing = append(missing, name)
		return ""
	}
	l := crioLayout{
		layout: layout{Pause: PauseImage, Snapshotter: "overlay", Network: crioNetwork, Subnet: crioSubnet, CNIDir: b.cniDir},
		Pinns:  find("pinns"), Runc: find("runc"), Conmon: find("conmon"),
	}
	if len(missing) > 0 {
		return crioLayout{}, fmt.Errorf("%w: %s not found (Debian: apt-get install conmon)", ErrUnavailable, strings.Join(missing, ", "))
	}
	return l, nil
}

func newCRIO(ctx context.Context, registries []*Registry) (_ *CRIO, err error) {
	programs := os.Getenv(CRIODirVariable)
	l, err := findCRIO(programs)
	if err != nil {
		return nil, err
	}
	c := &CRIO{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if c.lock, err = os.OpenFile(crioLock, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(c.lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	if l.dir, err = makeFolder(""); err != nil {
		return nil, err
	}
	l.Dir = l.dir
	if onOverlay(l.dir) {
		l.Snapshotter = "vfs" // overlayfs does not stack on itself
	}
	c.layout, c.Socket = l, l.Socket()
	if err = l.write(registries); err != nil {
		return nil, err
	}
	if c.Shared, err = shareFolder(l.dir); err != nil {
		return nil, err
	}
	if err = c.launch(filepath.Join(programs, "crio")); err != nil {
		return nil, err
	}
	if c.conn, err = dial(c.Socket); err != nil {
		return nil, err
	}
	c.Runtime, c.Images = runtimeapi.NewRuntimeServiceClient(c.conn), runtimeapi.NewImageServiceClient(c.conn)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err = waitReady(ctx, c.Runtime); err != nil {
		return nil, fmt.Errorf("wait for CRI-O: %w\n%s", err, c.logTail())
	}
	_, err = c.Images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: BusyboxImage}})
	return c, err
}

// shareFolder makes a folder below dir, whose mounts propagate to mount namespaces that begin later.
// The mount is removed with dir.
func shareFolder(dir string) (string, error) {
	shared := filepath.Join(dir, "shared")
	if err := os.Mkdir(shared, 0o755); err != nil {
		return "", err
	}
	if err := unix.Mount(shared, shared, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("bind mount %s: %w", shared, err)
	}
	return shared, unix.Mount("", shared, "", unix.MS_SHARED, "")
}

func (c *CRIO) launch(program string) error {
	log, err := os.Create(c.layout.log())
	if err != nil {
		return err
	}
	defer log.Close()
	// CRI-O limits huge pages if /proc/cgroups has hugetlb. runc then fails unless the hierarchy is
	// mounted.
	hide := ":"
	if _, err := os.Stat("/sys/fs/cgroup/hugetlb"); err != nil {
		hide = "grep -v ^hugetlb /proc/cgroups > cgroups && mount --bind cgroups /proc/cgroups"
	}
	c.cmd = exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", hide+` && exec "$@"`, "sh", program, "--config", c.layout.config(), "--config-dir", "")
	c.cmd.Dir = c.layout.dir
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "TMPDIR=" + c.layout.dir, "HOME=" + c.layout.dir}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		c.cmd = nil
		return err
	}
	c.exited = make(chan struct{})
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // the process ends by a signal
	}()
	return nil
}

// stop removes all pods, ends CRI-O and removes mounts, network and folders.
func (c *CRIO) stop() error {
	var errs []error
	if c.Runtime != nil {
		errs = append(errs, c.removePods())
	}
	if c.cmd != nil {
		_ = c.cmd.Process.Signal(unix.SIGTERM) // it may have ended
		select {
		case <-c.exited:
		case <-time.After(10 * time.Second):
			_ = c.cmd.Process.Kill()
			<-c.exited
		}
	}
	if c.conn != nil {
		errs = append(errs, c.conn.Close())
	}
	if dir := c.layout.dir; dir != "" {
		errs = append(errs, removeBridge(crioNetwork), unmountBelow(dir), os.RemoveAll(dir))
	}
	if c.lock != nil {
		errs = append(errs, c.lock.Close())
	}
	return errors.Join(errs...)
}

func (c *CRIO) removePods() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pods, err := c.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	errs := []error{err}
	for _, pod := range pods.GetItems() {
		_, err := c.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: pod.Id})
		errs = append(errs, err)
		_, err = c.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.Id})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *CRIO) logTail() string {
	text, err := os.ReadFile(c.layout.log())
	if err != nil {
		return err.Error()
	}
	const length = 8000
	return string(text[max(0, len(text)-length):])
}
