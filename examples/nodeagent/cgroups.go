// SPDX-License-Identifier: Apache-2.0

//go:build linux && !nocgroups

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups/hierarchy"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/runtime/cri"
	"github.com/keelson-dev/keelson/runtime/process"
)

// cgroupFlags are the flags for the cgroups of pods. Names and defaults are the kubelet's (1.36).
type cgroupFlags struct {
	perQOS                      bool
	root, driver                string
	podPIDs                     int64
	enforce                     []string
	kubeReserved, systemReserve string // cgroups

	made *atomic.Pointer[cgroups.Groups] // set by newCgroups, which needs the runtime's answer
}

// The elements of --enforce-node-allocatable.
const (
	enforcePods   = "pods"
	enforceSystem = "system-reserved"
	enforceKube   = "kube-reserved"
	enforceNone   = "none"
	compressible  = "-compressible" // suffix
)

func (c *cgroupFlags) register(set *pflag.FlagSet) {
	c.made = &atomic.Pointer[cgroups.Groups]{}
	set.BoolVar(&c.perQOS, "cgroups-per-qos", true, "with a container runtime: each pod has a cgroup with the sum of its limits, below the cgroups of its QoS class and of all pods")
	set.StringVar(&c.root, "cgroup-root", "/", "with a container runtime: existing cgroup above the cgroups of --cgroups-per-qos. With processes: cgroup for the limits of pods; without it, pods with limits are refused")
	set.StringVar(&c.driver, "cgroup-driver", string(cgroups.Cgroupfs), "driver of cgroups, \"cgroupfs\" or \"systemd\", if the container runtime does not report its driver")
	set.Int64Var(&c.podPIDs, "pod-max-pids", -1, "how many processes and threads each pod may have; -1 = any number")
	set.StringSliceVar(&c.enforce, "enforce-node-allocatable", []string{enforcePods}, "with a container runtime: parts of the node with a limit, as `part,...`: \"pods\" are limited to the allocatable resources, the cgroups of \"system-reserved\" and \"kube-reserved\" to the reserved resources, or with \"-compressible\" at the end to the reserved cpu; \"none\"")
	set.StringVar(&c.systemReserve, "system-reserved-cgroup", "", "existing cgroup of --enforce-node-allocatable=system-reserved, e.g. /system.slice")
	set.StringVar(&c.kubeReserved, "kube-reserved-cgroup", "", "existing cgroup of --enforce-node-allocatable=kube-reserved, e.g. /runtime.slice")
}

// complete sets defaults and validates the flags.
func (c *cgroupFlags) complete(f *flags, set *pflag.FlagSet) error {
	switch {
	case !filepath.IsAbs(c.root):
		return fmt.Errorf("--cgroup-root %q: want an absolute path, such as /", c.root)
	case c.podPIDs == 0 || c.podPIDs < -1:
		return fmt.Errorf("--pod-max-pids %d: want more than 0, or -1 for any number", c.podPIDs)
	}
	if f.endpoint == processEndpoint {
		for _, name := range []string{"cgroups-per-qos", "cgroup-driver", "enforce-node-allocatable"} {
			if set.Changed(name) {
				return fmt.Errorf("--%s is for a container runtime; the process backend makes the cgroups itself, with --cgroup-root", name)
			}
		}
		c.perQOS = false
		if !set.Changed("cgroup-root") {
			c.root = ""
		}
		if c.podPIDs > 0 && c.root == "" {
			return errors.New("--pod-max-pids needs --cgroup-root, a cgroup for processes")
		}
		return nil
	}
	if !c.perQOS {
		if set.Changed("enforce-node-allocatable") && slices.ContainsFunc(c.enforce, func(e string) bool { return e != enforceNone }) {
			return fmt.Errorf("--enforce-node-allocatable %s is not supported unless --cgroups-per-qos is set", strings.Join(c.enforce, ","))
		}
		return nil
	}
	for i, element := range c.enforce {
		kind, only := strings.CutSuffix(element, compressible)
		switch {
		case element == enforceNone && len(c.enforce) > 1:
			return errors.New("--enforce-node-allocatable: none stands alone")
		case element == enforceNone, element == enforcePods:
		case kind != enforceSystem && kind != enforceKube:
			return fmt.Errorf("--enforce-node-allocatable %s: want pods, system-reserved, kube-reserved, system-reserved-compressible, kube-reserved-compressible or none", element)
		case only && slices.Contains(c.enforce, kind):
			return fmt.Errorf("--enforce-node-allocatable: give %s or %s", kind, element)
		case c.reserved(kind) == "":
			return fmt.Errorf("--enforce-node-allocatable %s needs --%s-cgroup", element, kind)
		}
		if slices.Contains(c.enforce[:i], element) {
			return fmt.Errorf("--enforce-node-allocatable names %s twice", element)
		}
	}
	if c.driver != string(cgroups.Cgroupfs) && c.driver != string(cgroups.Systemd) {
		return fmt.Errorf("--cgroup-driver %q: want cgroupfs or systemd", c.driver)
	}
	return nil
}

// limitsPods reports whether all pods together have a limit below the machine's memory.
func (c *cgroupFlags) limitsPods() bool { return c.perQOS && slices.Contains(c.enforce, enforcePods) }

// ofAllPods returns the path of the cgroup of all pods, "" without one.
func (c *cgroupFlags) ofAllPods() string {
	if groups := c.made.Load(); groups != nil {
		return groups.Whole()
	}
	return ""
}

// reserved returns the cgroup of an element of --enforce-node-allocatable.
func (c *cgroupFlags) reserved(element string) string {
	if element == enforceSystem {
		return c.systemReserve
	}
	return c.kubeReserved
}

// limit sets the options of the process backend.
func (c *cgroupFlags) limit(o *process.Options) { o.Cgroup, o.PodPIDs = c.root, max(c.podPIDs, 0) }

// apply sets the options of the CRI backend.
func (c *cgroupFlags) apply(o *cri.Options) {
	if c.perQOS {
		o.CgroupParent = func(pod *v1.Pod) string { return c.made.Load().Parent(pod) }
	}
}

// newCgroups makes the cgroups that all pods share. It is called before the first pod. The result is
// nil without cgroups for pods.
func newCgroups(f flags, backend cri.Backend, numbers *metrics, log *zap.Logger) (*cgroups.Groups, error) {
	c := &f.cgroups
	if !c.perQOS || backend == nil {
		return nil, nil
	}
	driver := cgroups.Driver(c.driver)
	if told := backend.Info().CgroupDriver; told != "" {
		driver = cgroups.Driver(told)
	}
	writer, err := hierarchy.New(driver)
	if err != nil {
		return nil, fmt.Errorf("--cgroups-per-qos: %w", err)
	}
	opts := cgroups.Options{
		Writer: writer, Driver: driver, Root: c.root, Records: filepath.Join(f.root, "cgroups"),
		Settings: cgroups.Settings{PodPIDs: c.podPIDs, PageSizes: writer.PageSizes(), ProtectsMemory: f.cri.isReserved()},
		NodeName: f.node, Hooks: cgroups.Hooks{Operated: numbers.changedCgroup}, Logger: log,
	}
	enforced := f.offer.enforced
	if !slices.Contains(c.enforce, enforcePods) {
		enforced = f.offer.machine
	}
	opts.Node = cgroups.ForResources(enforced, opts.Settings, false)
	for _, element := range c.enforce {
		kind, only := strings.CutSuffix(element, compressible)
		if list, is := map[string]v1.ResourceList{enforceSystem: f.offer.ofSystem, enforceKube: f.offer.ofKube}[kind]; is {
			opts.Reserved = append(opts.Reserved, cgroups.Reserved{Path: c.reserved(kind), Values: cgroups.ForResources(list, opts.Settings, only)})
		}
	}
	groups, err := cgroups.New(opts)
	if err == nil {
		err = groups.SetUp()
	}
	if err != nil {
		return nil, fmt.Errorf("--cgroups-per-qos: %w (--cgroups-per-qos=false leaves all containers in the cgroup of the runtime)", err)
	}
	c.made.Store(groups)
	return groups, nil
}

// cgroupFeatures returns the features of node.Options.
func cgroupFeatures(groups *cgroups.Groups) features {
	if groups == nil {
		return nil
	}
	return func(h *feature.Host) []feature.Feature { return []feature.Feature{groups.Feature(h)} }
}
