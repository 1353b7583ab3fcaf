// SPDX-License-Identifier: Apache-2.0

// Package host reads what a node says of its machine from the machine: the facts
// of package nodestatus that no other part of an agent knows.
package host

import (
	"bufio"
	"bytes"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Machine is where the facts of a machine lie. The zero value is the machine that
// this process runs on.
type Machine struct {
	// Root is the folder that /proc, /sys and /etc are in. Defaults to "/".
	Root string
}

// System is what a node tells of its system. What cannot be read is left out;
// RuntimeVersion is given by the caller, as "containerd://2.1.0".
func (m Machine) System(runtimeVersion string) v1.NodeSystemInfo {
	return v1.NodeSystemInfo{
		MachineID:               m.machineID(),
		SystemUUID:              strings.ToLower(m.line("sys/class/dmi/id/product_uuid")),
		BootID:                  m.line("proc/sys/kernel/random/boot_id"),
		KernelVersion:           m.line("proc/sys/kernel/osrelease"),
		OSImage:                 m.osImage(),
		ContainerRuntimeVersion: runtimeVersion,
		KubeletVersion:          Version(),
		OperatingSystem:         runtime.GOOS,
		Architecture:            runtime.GOARCH,
	}
}

func (m Machine) machineID() string {
	if id := m.line("etc/machine-id"); id != "" {
		return id
	}
	return m.line("var/lib/dbus/machine-id")
}

// osImage is the name of the distribution, for people.
func (m Machine) osImage() string {
	for _, path := range []string{"etc/os-release", "usr/lib/os-release"} {
		for key, value := range pairs(m.read(path), "=") {
			if key != "PRETTY_NAME" {
				continue
			}
			if unquoted, err := strconv.Unquote(value); err == nil {
				return unquoted
			}
			return strings.Trim(value, `'"`)
		}
	}
	return runtime.GOOS
}

// Memory is the machine's, and what of it a program could have now, in bytes;
// zero if unknown.
func (m Machine) Memory() (all, available int64) {
	for key, value := range pairs(m.read("proc/meminfo"), ":") {
		number, unit, _ := strings.Cut(value, " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || unit != "kB" {
			continue
		}
		switch key {
		case "MemTotal":
			all = n << 10
		case "MemAvailable":
			available = n << 10
		}
	}
	return all, available
}

// ProcessIDs is how many processes and threads there may be, and how many there
// are; zero if unknown.
func (m Machine) ProcessIDs() (most, used int64) {
	most, err := strconv.ParseInt(m.line("proc/sys/kernel/pid_max"), 10, 64)
	if err != nil {
		return 0, 0
	}
	if threads, err := strconv.ParseInt(m.line("proc/sys/kernel/threads-max"), 10, 64); err == nil {
		most = min(most, threads)
	}
	fields := strings.Fields(m.line("proc/loadavg")) // 0.1 0.2 0.3 running/all last
	if len(fields) < 4 {
		return 0, 0
	}
	_, all, _ := strings.Cut(fields[3], "/")
	if used, err = strconv.ParseInt(all, 10, 64); err != nil {
		return 0, 0
	}
	return most, used
}

// apiModule is the module whose version is that of the Kubernetes API in use.
const apiModule = "k8s.io/api"

// Version is what a node tells as its kubelet's version: that of Kubernetes whose
// API this program speaks, and that it is keelson. It is a semantic version,
// because some read it as one.
func Version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "v0.0.0+keelson"
	}
	for _, m := range build.Deps {
		if rest, ok := strings.CutPrefix(m.Version, "v0."); m.Path == apiModule && ok {
			return "v1." + rest + "+keelson" // v0.37.2 is the API of v1.37.2
		}
	}
	return "v0.0.0+keelson"
}

// pairs are the lines of a file that have a key and a value.
func pairs(data []byte, separator string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		lines := bufio.NewScanner(bytes.NewReader(data))
		for lines.Scan() {
			key, value, ok := strings.Cut(lines.Text(), separator)
			if ok && !yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
				return
			}
		}
	}
}
