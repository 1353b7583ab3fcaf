// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	oci "github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs"
	"github.com/opencontainers/cgroups/manager"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/retry"
)

// unifiedRoot is where cgroup version 2 is mounted on a machine with version 2 only.
const unifiedRoot = "/sys/fs/cgroup"

// Writer implements cgroups.Writer.
type Writer struct {
	driver  cgroups.Driver
	unified bool              // the machine has cgroup version 2 only
	roots   map[string]string // folder of the root cgroup by controller; with version 2, "" is the only one
}

var _ cgroups.Writer = (*Writer)(nil)

// needed are the controllers of version 1 without which pods have no limits.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// hugePages is the controller of huge pages, which a kernel may lack.
const hugePages = "hugetlb"

// New looks for the hierarchies of the machine. The error names the controllers that are missing.
func New(driver cgroups.Driver) (*Writer, error) {
	w := &Writer{driver: driver, unified: oci.IsCgroup2UnifiedMode(), roots: map[string]string{"": unifiedRoot}}
	if w.unified {
		return w, w.checkUnified()
	}
	m, err := fs.NewManager(&oci.Cgroup{Path: "/", Resources: &oci.Resources{}}, nil)
	if err != nil {
		return nil, err
	}
	w.roots = m.GetPaths()
	var missing []string
	for _, controller := range needed {
		if w.roots[controller] == "" {
			missing = append(missing, controller)
		}
	}
	return w, lack(missing)
}

func (w *Writer) checkUnified() error {
	text, err := os.ReadFile(filepath.Join(unifiedRoot, "cgroup.controllers"))
	if err != nil {
		return err
	}
	offered, missing := strings.Fields(string(text)), []string{}
	for _, controller := range needed {
		if !slices.Contains(offered, controller) {
			missing = append(missing, controller)
		}
	}
	return lack(missing)
}

func lack(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the machine has some missing cgroup controllers: %s", strings.Join(missing, ", "))
}

// PageSizes returns the sizes of huge pages that cgroups can limit, such as "2MB".
func (w *Writer) PageSizes() []string {
	if !w.unified && w.roots[hugePages] == "" {
		return nil
	}
	return oci.HugePageSizes()
}

// folders returns the folders of a cgroup by controller.
func (w *Writer) folders(name string) map[string]string {
	all := make(map[string]string, len(w.roots))
	for controller, root := range w.roots {
		all[controller] = filepath.Join(root, name)
	}
	return all
}

// manager returns the manager of a cgroup.
func (w *Writer) manager(name string, r *oci.Resources) (oci.Manager, error) {
	if w.driver == cgroups.Systemd {
		return manager.New(slice(name, r))
	}
	return manager.NewWithPaths(&oci.Cgroup{Path: name, Resources: r}, w.folders(name))
}

// slice describes a slice of systemd.
func slice(name string, r *oci.Resources) *oci.Cgroup {
	parent, own := path.Split(name)
	c := &oci.Cgroup{Systemd: true, Name: own, Parent: "-.slice", Resources: r}
	if parent != "/" {
		c.Parent = path.Base(parent)
	}
	return c
}

// Ensure implements cgroups.Writer.
func (w *Writer) Ensure(name string, v cgroups.Values) error {
	r := resources(v, w.unified)
	m, err := w.manager(name, r)
	if err != nil {
		return err
	}
	if !w.exists(name) {
		if err := m.Apply(-1); err != nil {
			return err
		}
	}
	return m.Set(r)
}

// exists reports whether a cgroup exists. With version 1 it must be in the hierarchies of all
// controllers that limit resources, and may be missing in others.
func (w *Writer) exists(name string) bool {
	for controller, root := range w.roots {
		if !w.unified && controller != hugePages && !slices.Contains(needed, controller) {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			return false
		}
	}
	return true
}

// resources returns the values in the terms of the library.
func resources(v cgroups.Values, unified bool) *oci.Resources {
	r := &oci.Resources{SkipDevices: true, SkipFreezeOnSet: true, Memory: v.Memory, CpuQuota: v.CPUQuota}
	if v.CPUQuota != 0 {
		r.CpuPeriod = podresources.QuotaPeriod
	}
	if v.PIDs != 0 {
		r.PidsLimit = &v.PIDs
	}
	switch {
	case v.CPUShares == 0:
	case unified:
		r.CpuWeight = weight(v.CPUShares)
	default:
		r.CpuShares = uint64(v.CPUShares)
	}
	for _, size := range slices.Sorted(maps.Keys(v.HugePages)) {
		r.HugetlbLimit = append(r.HugetlbLimit, &oci.HugepageLimit{Pagesize: size, Limit: uint64(v.HugePages[size])})
	}
	if unified && (v.MemoryMin != 0 || v.MemoryLow != 0) {
		r.Unified = map[string]string{}
		for file, bytes := range map[string]int64{"memory.min": v.MemoryMin, "memory.low": v.MemoryLow} {
			if bytes != 0 {
				r.Unified[file] = strconv.FormatInt(max(bytes, 0), 10)
			}
		}
	}
	return r
}

// weight returns the weight of cgroup version 2, as the kubelet computes it: in proportion.
func weight(shares int64) uint64 {
	return uint64(1 + (shares-podresources.MinShares)*9999/(podresources.MaxShares-podresources.MinShares))
}

// Limits implements cgroups.Writer.
func (w *Writer) Limits(name string) (v cgroups.Values, exists bool, err error) {
	if !w.exists(name) {
		return v, false, nil
	}
	if w.unified {
		v, err = unifiedLimits(filepath.Join(w.roots[""], name))
	} else {
		v, err = legacyLimits(w.folders(name))
	}
	return v, err == nil, err
}

// unifiedLimits reads the limits of cgroup version 2. The root cgroup has none.
func unifiedLimits(folder string) (v cgroups.Values, err error) {
	var errs [3]error
	v.Memory, errs[0] = limit(folder, "memory.max")
	v.PIDs, errs[1] = limit(folder, "pids.max")
	v.CPUQuota, errs[2] = quota(folder)
	return v, errors.Join(errs[:]...)
}

// quota reads the limit of processor time of cgroup version 2, for a period of 100 ms.
func quota(folder string) (int64, error) {
	text, err := read(folder, "cpu.max")
	fields := strings.Fields(text)
	if err != nil || len(fields) != 2 || fields[0] == "max" {
		return cgroups.Unlimited, err
	}
	amount, err := strconv.ParseInt(fields[0], 10, 64)
	period, bad := strconv.ParseInt(fields[1], 10, 64)
	if err = errors.Join(err, bad); err != nil || period <= 0 {
		return cgroups.Unlimited, err
	}
	return amount * podresources.QuotaPeriod / period, nil
}

// legacyLimits reads the limits of cgroup version 1.
func legacyLimits(folders map[string]string) (v cgroups.Values, err error) {
	var errs [3]error
	v.Memory, errs[0] = limit(folders["memory"], "memory.limit_in_bytes")
	v.PIDs, errs[1] = limit(folders["pids"], "pids.max")
	v.CPUQuota, errs[2] = limit(folders["cpu"], "cpu.cfs_quota_us")
	return v, errors.Join(errs[:]...)
}

// limit reads a limit. A file that is missing, as in a root cgroup, limits nothing.
func limit(folder, file string) (int64, error) {
	text, err := read(folder, file)
	if err != nil || text == "" || text == "max" {
		return cgroups.Unlimited, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if n < 0 || n >= 1<<62 {
		n = cgroups.Unlimited
	}
	return n, err
}

func read(folder, file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, file))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// rounds is how often Kill looks for processes. A process may start others while it is killed.
const rounds = 5

// Kill implements cgroups.Writer.
func (w *Writer) Kill(ctx context.Context, name string) error {
	for round := range rounds {
		if err := retry.Sleep(ctx, time.Duration(round*round)*10*time.Millisecond); err != nil {
			return err
		}
		pids := w.processes(name)
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			w.kill(name, pid)
		}
	}
	return fmt.Errorf("processes %v were killed and do not end: %w", w.processes(name), cgroups.ErrBusy)
}

// kill kills the process pid, unless the number now belongs to a process outside the cgroup.
func (w *Writer) kill(name string, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	if slices.Contains(w.processes(name), pid) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may end meanwhile
	}
}

// processes returns the processes in a cgroup and below.
func (w *Writer) processes(name string) (all []int) {
	for _, folder := range w.folders(name) {
		pids, err := oci.GetAllPids(folder)
		if err == nil { // else the cgroup is missing, or goes away
			all = append(all, pids...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Remove implements cgroups.Writer.
func (w *Writer) Remove(_ context.Context, name string) error {
	if pids := w.processes(name); len(pids) > 0 {
		return fmt.Errorf("%w: %v", cgroups.ErrBusy, pids)
	}
	if w.driver == cgroups.Systemd {
		m, err := w.manager(name, &oci.Resources{})
		if err != nil {
			return err
		}
		return m.Destroy()
	}
	var errs []error
	for _, folder := range w.folders(name) {
		errs = append(errs, oci.RemovePath(folder)) // tries again for a second: a process that has ended counts for a moment
	}
	return errors.Join(errs...)
}
