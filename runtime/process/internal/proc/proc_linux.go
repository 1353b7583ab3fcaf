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
	info.Zombie = fields[0] == "Z" || fields[0] == "X"
	if err := errors.Join(errs[:]...); err != nil {
		return Info{}, fmt.Errorf("stat: %w", err)
	}
	return info, nil
}

// All returns every process there is. One that ends meanwhile may be missing.
func All() ([]Info, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if info, err := Lookup(pid); err == nil {
			out = append(out, info)
		}
	}
	return out, nil
}

// HasEnv reports whether the process was started with this entry, "NAME=value",
// in its environment. False also if this user may not know.
func HasEnv(pid int, entry string) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && slices.Contains(strings.Split(string(raw), "\x00"), entry)
}

// Find returns the process that was started with these arguments.
func Find(args ...string) (Ref, bool) {
	all, err := All()
	if err != nil {
		return Ref{}, false
	}
	want := strings.Join(args, "\x00") + "\x00"
	for _, p := range all {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
		if err == nil && string(raw) == want && p.Alive() {
			return p.Ref, true
		}
	}
	return Ref{}, false
}
