// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Fixed paths of containerd, its shim and libcni, outside any configuration.
const (
	shimSockets = "/run/containerd/s"
	cniResults  = "/var/lib/cni/results"
)

// removeInstance kills every process of the instance at l and removes its resources. removeInstance
// may be repeated, and also works for an instance that died.
func removeInstance(l layout) error {
	if err := killAll(l); err != nil {
		return err
	}
	// The folder is removed last, because it names the other resources. Files of other programs may
	// be behind a mount, so nothing is removed before all mounts are gone.
	err := errors.Join(removeSockets(l), removeResults(l), removeCgroups(l), removeBridge(l.Network), unmountBelow(l.dir))
	if err != nil {
		return err
	}
	return os.RemoveAll(l.dir)
}

// killAll kills the processes of the instance until none is left, because a process may be starting
// another.
func killAll(l layout) error {
	const patience = 10 * time.Second
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		pids := findPIDs(l).all()
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of %s do not end", pids, l.dir)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill %d: %w", pid, err)
			}
		}
		<-ticker.C
	}
}

// mount is a line of /proc/self/mountinfo.
type mount struct{ point, fsType string }

// parseMounts parses the format of /proc/self/mountinfo and skips invalid lines.
func parseMounts(text string) []mount {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var mounts []mount
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) < 6 || len(g) < 1 {
			continue
		}
		mounts = append(mounts, mount{unescape.Replace(f[4]), g[0]})
	}
	return mounts
}

func readMounts() ([]mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	return parseMounts(string(text)), err
}

// unmountBelow unmounts all mounts below dir, the latest first.
func unmountBelow(dir string) error {
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range slices.Backward(mounts) {
		if !strings.HasPrefix(m.point, dir+"/") {
			continue
		}
		err := unix.Unmount(m.point, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) { // the last user is still going
			err = unix.Unmount(m.point, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: not mounted any more
			errs = append(errs, fmt.Errorf("unmount %s: %w", m.point, err))
		}
	}
	return errors.Join(errs...)
}

// removeSockets removes the shims' sockets: their names are hashes of containerd's
// socket, the namespace and the ID.
func removeSockets(l layout) error {
	var errs []error
	for _, id := range containerIDs(l) {
		for _, path := range []string{filepath.Join(l.Socket(), namespace, id), filepath.Join(l.Socket(), namespace, id, "debug")} {
			err := os.Remove(filepath.Join(shimSockets, digest([]byte(path))))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// removeCgroups removes the cgroups of all containers, and their parent if the parent is a pod's
// cgroup.
func removeCgroups(l layout) error {
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range containerIDs(l) {
		path, err := cgroupPath(filepath.Join(l.bundles(), id))
		if err != nil || path == "" || strings.Contains(path, ":") { // systemd removes its own cgroups
			continue
		}
		for _, m := range mounts {
			if m.fsType != "cgroup" && m.fsType != "cgroup2" {
				continue
			}
			dir := filepath.Join(m.point, path)
			errs = append(errs, removeCgroup(dir))
			if parent := filepath.Dir(dir); strings.HasPrefix(filepath.Base(parent), "pod") {
				_ = os.Remove(parent) // a sibling may still be present
			}
		}
	}
	return errors.Join(errs...)
}

// cgroupPath returns the path of the container's cgroup in each hierarchy.
func cgroupPath(bundle string) (string, error) {
	text, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil {
		return "", err
	}
	var spec struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
		} `json:"linux"`
	}
	err = json.Unmarshal(text, &spec)
	return spec.Linux.CgroupsPath, err
}

// removeCgroup removes a cgroup with its children. The kernel may take a moment after the last
// process has ended.
func removeCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(dirs) {
		for range 100 {
			if err = os.Remove(d); !errors.Is(err, unix.EBUSY) {
				break
			}
			<-time.After(5 * time.Millisecond)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeBridge deletes the bridge. Remaining ends of veth pairs disappear with the network
// namespaces of their pods.
func removeBridge(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, request)
	if errors.Is(err, unix.ENODEV) {
		return nil // no pod had a private network
	}
	if err == nil {
		request.SetUint16(request.Uint16() &^ unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCBRDELBR, request)
	}
	if err != nil {
		return fmt.Errorf("delete bridge %s: %w", name, err)
	}
	return nil
}

// removeResults removes libcni's records of sandboxes that were not stopped, for the pod network
// and the loopback network of containerd.
func removeResults(l layout) error {
	patterns := []string{l.Network + "-*"}
	for _, id := range containerIDs(l) {
		patterns = append(patterns, "*-"+id+"-*")
	}
	var errs []error
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(cniResults, pattern))
		errs = append(errs, err)
		for _, f := range files {
			errs = append(errs, os.Remove(f))
		}
	}
	return errors.Join(errs...)
}

// onOverlay reports whether dir is on an overlay file system, as all of a
// container's root often is.
func onOverlay(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC
}
