// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/kernelfile"
)

// bootID is the boot ID once it was read. No process outlives its boot.
var bootID atomic.Pointer[string]

// BootID identifies the current boot of the machine.
func BootID() (string, error) {
	if known := bootID.Load(); known != nil {
		return *known, nil
	}
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id := strings.TrimSpace(string(raw))
	if err == nil {
		bootID.Store(&id)
	}
	return id, err
}

// Lookup returns the kernel's data about a PID, or os.ErrProcessDone without a process.
func Lookup(pid int) (Info, error) {
	raw, err := kernelfile.Append(make([]byte, 0, 512), "/proc/"+strconv.Itoa(pid)+"/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return Info{}, os.ErrProcessDone
	}
	if err != nil {
		return Info{}, err
	}
	return parseStat(raw)
}

// parseStat parses /proc/<pid>/stat. The second field is the program's name in parentheses. The
// name may contain spaces and parentheses.
func parseStat(raw []byte) (Info, error) {
	open, shut := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || shut < open {
		return Info{}, errors.New("stat: no program name")
	}
	const startTime = 22 - 3 // fields count from 1; the first field here is the third
	fields := strings.Fields(string(raw[shut+1:]))
	if len(fields) <= startTime {
		return Info{}, fmt.Errorf("stat: %d fields", len(fields))
	}
	var info Info
	var errs [5]error
	info.PID, errs[0] = strconv.Atoi(strings.TrimSpace(string(raw[:open])))
	info.PPID, errs[1] = strconv.Atoi(fields[1])
	info.PGID, errs[2] = strconv.Atoi(fields[2])
	info.SID, errs[3] = strconv.Atoi(fields[3])
	info.Start, errs[4] = strconv.ParseUint(fields[startTime], 10, 64)
	info.Name = string(raw[open+1 : shut])
	info.Zombie = fields[0] == "Z" || fields[0] == "X"
	if err := errors.Join(errs[:]...); err != nil {
		return Info{}, fmt.Errorf("stat: %w", err)
	}
	return info, nil
}

// All returns all processes. A process that ends meanwhile may be missing.
func All() ([]Info, error) {
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, pid := range pids {
		if info, err := Lookup(pid); err == nil {
			out = append(out, info)
		}
	}
	return out, nil
}

// pids returns the PIDs of all processes.
func pids() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out = append(out, pid)
		}
	}
	return out, err
}

// HasEnv reports whether the initial environment of the process has the entry "NAME=value". The
// result is also false if this user may not read the environment.
func HasEnv(pid int, entry string) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && slices.Contains(strings.Split(string(raw), "\x00"), entry)
}

// Marked returns, by PID, the value of the variable name in the initial environment of each process
// that has the variable and whose environment this user may read.
func Marked(name string) (map[int]string, error) {
	pids, err := pids()
	out := map[int]string{}
	for _, pid := range pids {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil {
			continue
		}
		for entry := range strings.SplitSeq(string(raw), "\x00") {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				out[pid] = value
			}
		}
	}
	return out, err
}

// Place has the arguments and the current working directory of a process.
type Place struct {
	Args []string
	Dir  string
}

// isCopy reports whether the parent of a process has the arguments of the process, too. Between its fork
// and the start of a program, a child has the arguments of its parent, and is no other instance of the
// parent's program.
func isCopy(pid int, args []string) bool {
	info, _ := Lookup(pid) // a process that has ended has no parent
	parents, _ := arguments("/proc/" + strconv.Itoa(info.PPID))
	return slices.Equal(args, split(parents))
}

// Places returns, by PID, the Place of each process with matching arguments, without the children
// of such a process that have not executed a program yet.
func Places(match Match) (map[int]Place, error) {
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	out := map[int]Place{}
	for _, pid := range pids {
		if p, ok := PlaceOf(pid, match); ok {
			out[pid] = p
		}
	}
	return out, nil
}

// PlaceOf returns the Place of a process with matching arguments. ok is false for other processes, and
// for a child of such a process that has not executed a program yet.
func PlaceOf(pid int, match Match) (p Place, ok bool) {
	if !matches(pid, func(args []string) bool { p.Args = args; return match(args) }) || isCopy(pid, p.Args) {
		return Place{}, false
	}
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	p.Dir = dir
	return p, err == nil
}
