// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Environment variables with the folder of containerd, and the permission to skip tests.
const (
	DirVariable     = "KEELSON_CONTAINERD_DIR"
	RequireVariable = "KEELSON_REQUIRE_CONTAINERD"
)

// ErrUnavailable means that the machine cannot run containerd. A test may skip after
// ErrUnavailable.
var ErrUnavailable = errors.New("no containerd for tests")

// binaries are the paths of the programs of one instance.
type binaries struct {
	containerd, ctr, busybox string
	path                     string // PATH of containerd, used to find its shim and runc
	cniDir                   string
	version                  version
}

// findBinaries searches the programs of an instance: first in dir unless empty, then on PATH and in
// the folders for root's programs. An ErrUnavailable names every missing program.
func findBinaries(dir string) (binaries, error) {
	if runtime.GOOS != "linux" {
		return binaries{}, fmt.Errorf("%w: containers are Linux's", ErrUnavailable)
	}
	if os.Geteuid() != 0 {
		return binaries{}, fmt.Errorf("%w: the test does not run as root", ErrUnavailable)
	}
	dirs := slices.Concat(filepath.SplitList(dir), filepath.SplitList(os.Getenv("PATH")), []string{"/usr/sbin", "/sbin"})
	var missing []string
	find := func(name string, in []string) string {
		for _, d := range in {
			if file, err := exec.LookPath(filepath.Join(d, name)); err == nil && filepath.IsAbs(file) {
				return file
			}
		}
		missing = append(missing, name)
		return ""
	}
	b := binaries{path: strings.Join(dirs, string(filepath.ListSeparator))}
	b.containerd = find("containerd", dirs)
	b.ctr = find("ctr", dirs)
	b.busybox = find("busybox", dirs)
	find("containerd-shim-runc-v2", dirs)
	find("runc", dirs)
	cni := append(filepath.SplitList(os.Getenv("CNI_PATH")), "/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")
	b.cniDir = filepath.Dir(find("bridge", cni))
	if len(missing) > 0 {
		return binaries{}, fmt.Errorf("%w: %s not found (Debian: apt-get install containerd runc containernetworking-plugins busybox-static)",
			ErrUnavailable, strings.Join(missing, ", "))
	}
	for _, name := range []string{"host-local", "loopback"} {
		find(name, []string{b.cniDir})
	}
	if !isStatic(b.busybox) {
		missing = append(missing, "a statically linked busybox")
	}
	if len(missing) > 0 {
		return binaries{}, fmt.Errorf("%w: %s not found", ErrUnavailable, strings.Join(missing, ", "))
	}
	out, err := exec.Command(b.containerd, "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("%s --version: %w", b.containerd, err)
	}
	b.version, err = parseVersion(string(out))
	return b, err
}

// isStatic reports whether file runs without a dynamic linker, and therefore in an image without
// libraries.
func isStatic(file string) bool {
	f, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	return !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// version is containerd's.
type version struct {
	major, minor int
	text         string // as printed, without a leading v
}

// parseVersion parses the output of containerd --version: name, import path, version, and
// optionally the revision.
func parseVersion(line string) (version, error) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return version{}, fmt.Errorf("containerd --version said %q", line)
	}
	v := version{text: strings.TrimPrefix(fields[2], "v")}
	major, rest, _ := strings.Cut(v.text, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var errs [2]error
	v.major, errs[0] = strconv.Atoi(major)
	v.minor, errs[1] = strconv.Atoi(minor)
	if err := cmp.Or(errs[0], errs[1]); err != nil {
		return version{}, fmt.Errorf("containerd --version said %q: %w", line, err)
	}
	return v, nil
}

// hasEvents reports whether the runtime offers GetContainerEvents and RuntimeConfig. containerd
// offers GetContainerEvents since 1.7, and RuntimeConfig and configuration version 3 since 2.0.
func (v version) hasEvents() bool { return v.major >= 2 }
