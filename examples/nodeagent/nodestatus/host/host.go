// SPDX-License-Identifier: Apache-2.0

// Package host reads the facts of package nodestatus that come from the machine itself.
package host

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Machine reads facts from files of the operating system. The zero value is the machine of this
// process.
type Machine struct {
	// Root is the folder with /proc, /sys and /etc. Defaults to "/".
	Root string
}

// System returns the system information of the Node status. Fields that cannot be read are empty. The
// caller adds KubeletVersion and ContainerRuntimeVersion.
func (m Machine) System() v1.NodeSystemInfo {
	return v1.NodeSystemInfo{
		MachineID:       m.machineID(),
		SystemUUID:      m.systemUUID(),
		BootID:          m.line("proc/sys/kernel/random/boot_id"),
		KernelVersion:   m.line("proc/sys/kernel/osrelease"),
		OSImage:         m.osImage(),
		OperatingSystem: runtime.GOOS,
		Architecture:    runtime.GOARCH,
		Swap:            m.swap(),
	}
}

func (m Machine) machineID() string {
	if id := m.line("etc/machine-id"); id != "" {
		return id
	}
	return m.line("var/lib/dbus/machine-id")
}

// systemUUID returns the UUID of the machine: of its firmware, of its device tree (ARM), or else the
// machine ID, as the kubelet has it.
func (m Machine) systemUUID() string {
	for _, path := range []string{"sys/class/dmi/id/product_uuid", "proc/device-tree/system-id", "proc/device-tree/vm,uuid"} {
		if id := strings.Trim(m.line(path), "\x00"); id != "" {
			return strings.ToLower(id)
		}
	}
	return m.machineID()
}

// swap returns the capacity of all swap devices and files, nil if unknown.
func (m Machine) swap() *v1.NodeSwapStatus {
	for key, value := range pairs(m.read("proc/meminfo"), ":") {
		if key != "SwapTotal" {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSuffix(value, " kB"), 10, 64); err == nil && n > 0 {
			n <<= 10
			return &v1.NodeSwapStatus{Capacity: &n}
		}
	}
	return nil
}

// HugePages returns the huge pages of the machine by resource name, such as hugepages-2Mi, in bytes.
// A supported size without pages is in the list with 0.
func (m Machine) HugePages() v1.ResourceList {
	const folder, prefix = "sys/kernel/mm/hugepages", "hugepages-"
	all := v1.ResourceList{}
	for _, name := range m.names(folder) {
		size, sized := strings.CutPrefix(name, prefix)
		kib, err := strconv.ParseInt(strings.TrimSuffix(size, "kB"), 10, 64)
		if !sized || err != nil || kib <= 0 || kib > 1<<40 {
			continue
		}
		pages, err := strconv.ParseInt(m.line(filepath.Join(folder, name, "nr_hugepages")), 10, 64)
		if err != nil || pages < 0 || pages > 1<<62/(kib<<10) {
			continue
		}
		one := resource.NewQuantity(kib<<10, resource.BinarySI)
		all[v1.ResourceName(v1.ResourceHugePagesPrefix+one.String())] = *resource.NewQuantity(pages*kib<<10, resource.BinarySI)
	}
	return all
}

// osImage returns the name of the distribution.
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

// Memory returns the total and the available memory in bytes, zero if unknown.
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

// ProcessIDs returns the limit and the current number of processes and threads, zero if unknown.
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

// pairs yields the key and the value of each line that has both.
func pairs(data []byte, separator string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(string(data)) {
			key, value, ok := strings.Cut(line, separator)
			if ok && !yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
				return
			}
		}
	}
}
