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

	"golang.org/x/sys/unix"
)

// BootID names this boot of the machine.
func BootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw)), err
}

// Lookup returns what the kernel says of a PID: os.ErrProcessDone if nothing.
func Lookup(pid int) (Info, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return Info{}, os.ErrProcessDone
	}
	if err != nil {
		return Info{}, err
	}
	return parseStat(raw)
}

// parseStat reads /proc/<pid>/stat. Its second field is the program's name in
// parentheses, which may hold spaces and parentheses itself.
func parseStat(raw []byte) (Info, error) {
	open, shut := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || shut < open {
		return Info{}, errors.New("stat: no program name")
	}
	const startTime = 22 - 3 // fields are counted from 1; the first here is the third
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

// All returns every process there is. One that ends meanwhile may be missing.
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

// pids returns the PID of every process there is.
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

// HasEnv reports whether the process was started with this entry, "NAME=value",
// in its environment. False also if this user may not know.
func HasEnv(pid int, entry string) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && slices.Contains(strings.Split(string(raw), "\x00"), entry)
}

// Marked returns the value of the variable name in the environment of each process of
// this user, or that this user may look at, that was started with one; by PID.
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

// Place is where a process is: what it was started with, and its working directory as
// the kernel names it now.
type Place struct {
	Args []string
	Dir  string
}

// Places returns the place of each process with matching arguments; by PID.
func Places(match Match) (map[int]Place, error) {
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	out := map[int]Place{}
	for _, pid := range pids {
		var p Place
		found := matches(pid, func(args []string) bool { p.Args = args; return match(args) })
		if p.Dir, err = os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd"); found && err == nil {
			out[pid] = p
		}
	}
	return out, nil
}
