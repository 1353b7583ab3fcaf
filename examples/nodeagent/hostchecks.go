// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// hostFlags are demands on the machine and settings of the program that a kubelet's configuration
// file has.
type hostFlags struct {
	kernelDefaults, noSwap, noCgroupV1 bool
	contention                         bool

	logQueries bool // on --port
	logLevel   bool // may be set on --port
}

func (h *hostFlags) register(set *pflag.FlagSet) {
	set.BoolVar(&h.kernelDefaults, "protect-kernel-defaults", false, "do not start if the kernel's settings differ from the settings of a kubelet; this program never changes the settings")
	set.BoolVar(&h.noSwap, "fail-swap-on", false, "do not start on a machine with swap (the kubelet: true)")
	set.BoolVar(&h.noCgroupV1, "fail-cgroupv1", false, "do not start on a machine with cgroup version 1 (the kubelet: true)")
	set.BoolVar(&h.contention, "contention-profiling", false, "with --profiling, record where goroutines block")
	set.BoolVar(&h.logQueries, "enable-system-log-query", false, "answer queries for logs of services, /logs/?query=SERVICE of --port, from the system's journal or /var/log")
	set.BoolVar(&h.logLevel, "enable-debug-flags-handler", true, "let users with the permission to update nodes/proxy change -v, by PUT /debug/flags/v of --port")
}

// complete refuses flags that cannot take effect.
func (h *hostFlags) complete(s *serverFlags) error {
	if h.logQueries && !s.systemLogs {
		return errors.New("--enable-system-log-query needs --enable-system-log-handler")
	}
	return nil
}

// kernelDefaults are the settings that the kubelet (1.36) sets, or with protectKernelDefaults demands.
var kernelDefaults = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// check reads the files of a machine whose root folder is root. The error has every setting that is
// not as demanded.
func (h *hostFlags) check(root fs.FS) error {
	var errs []error
	if h.kernelDefaults {
		for _, name := range slices.Sorted(maps.Keys(kernelDefaults)) {
			text, err := fs.ReadFile(root, "proc/sys/"+name)
			if value := strings.TrimSpace(string(text)); err != nil || value != kernelDefaults[name] {
				errs = append(errs, fmt.Errorf("--protect-kernel-defaults: sysctl %s is %q: want %s", strings.ReplaceAll(name, "/", "."), value, kernelDefaults[name]))
			}
		}
	}
	if h.noSwap {
		text, err := fs.ReadFile(root, "proc/swaps") // absent without swap in the kernel
		if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err == nil && len(lines) > 1 {
			errs = append(errs, fmt.Errorf("--fail-swap-on: there is swap, %s: run swapoff, or set the flag to false", strings.Fields(lines[1])[0]))
		}
	}
	if h.noCgroupV1 {
		if _, err := fs.Stat(root, "sys/fs/cgroup/cgroup.controllers"); err != nil {
			errs = append(errs, errors.New("--fail-cgroupv1: /sys/fs/cgroup is not cgroup version 2"))
		}
	}
	return errors.Join(errs...)
}

// profile sets the events that the profiles of the program record.
func (h *hostFlags) profile(profiling bool) {
	if profiling && h.contention {
		goruntime.SetBlockProfileRate(1)
	}
}
