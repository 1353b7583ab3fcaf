// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/cgroup"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// openCgroup returns the cgroup of Options.Cgroup, nil without the option.
func openCgroup(opts Options) (*cgroup.Parent, error) {
	switch {
	case opts.PodPIDs < 0:
		return nil, fmt.Errorf("process: Options.PodPIDs is %d: want 0 or more", opts.PodPIDs)
	case opts.PodPIDs > 0 && opts.Cgroup == "":
		return nil, errors.New("process: Options.PodPIDs: needs Options.Cgroup")
	case opts.Cgroup == "":
		return nil, nil
	case !filepath.IsAbs(opts.Cgroup) || filepath.Clean(opts.Cgroup) != opts.Cgroup || opts.Cgroup == "/":
		return nil, fmt.Errorf("process: Options.Cgroup: %q: want a clean absolute path below /", opts.Cgroup)
	}
	group, err := cgroup.Open(opts.Cgroup)
	if err != nil {
		return nil, fmt.Errorf("process: Options.Cgroup: %w", err)
	}
	if why := group.Lacks("pids"); opts.PodPIDs > 0 && why != "" {
		return nil, fmt.Errorf("process: Options.PodPIDs: %s", why)
	}
	return group, nil
}

// lacks returns why a controller is missing, "" if it is there.
func (r *Runtime) lacks(controller string) string {
	if r.cgroup == nil {
		return whyCgroup
	}
	return r.cgroup.Lacks(controller)
}

// limits returns the cgroup of a container with its limits, nil without Options.Cgroup.
func (r *Runtime) limits(key containerKey, spec runtime.ContainerSpec) *record.Cgroup {
	if r.cgroup == nil {
		return nil
	}
	g := r.cgroup.Group(string(key.sandbox.uid), groupName(key))
	g.Pod.PIDs = r.podPIDs
	if spec.Pod != nil && spec.Pod.Spec.Resources != nil {
		g.Pod = r.limitsOf(*spec.Pod.Spec.Resources)
		g.Pod.PIDs = r.podPIDs
	}
	if spec.Container != nil {
		g.Own = r.limitsOf(spec.Container.Resources)
	}
	return g
}

// limitsOf returns the limits that can be set here. CheckPod has refused pods with other limits,
// unless the backend is lenient.
func (r *Runtime) limitsOf(want v1.ResourceRequirements) (l record.Limits) {
	if r.lacks("memory") == "" {
		l.Memory = want.Limits.Memory().Value()
	}
	if r.lacks("cpu") == "" {
		l.CPU, l.Weight = want.Limits.Cpu().MilliValue(), want.Requests.Cpu().MilliValue()
	}
	return l
}

// UpdateResources implements runtime.Updater. A container without a cgroup has no limits, and nothing
// changes.
func (r *Runtime) UpdateResources(ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error {
	s, in, err := r.openContainer(id)
	if err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	defer s.close()
	defer in.close()
	o, err := r.observe(ctx, in)
	if err == nil && o.verdict != verdictRunning {
		err = runtime.ErrNotRunning
	}
	if g := o.spec.Cgroup; err == nil && g != nil {
		err = cgroup.Update(g, r.limitsOf(want))
	}
	if err != nil {
		return fmt.Errorf("update container %s: %w", in.key.name, err)
	}
	return nil
}

// reported returns the limits that the kernel has for a container, nil for a container without a
// cgroup. Requests are not reported: a weight of version 2 stands for several.
func reported(g *record.Cgroup) *v1.ResourceRequirements {
	if g == nil {
		return nil
	}
	out := &v1.ResourceRequirements{Limits: v1.ResourceList{}}
	l := cgroup.LimitsOf(g)
	if l.CPU > 0 {
		out.Limits[v1.ResourceCPU] = *resource.NewMilliQuantity(l.CPU, resource.DecimalSI)
	}
	if l.Memory > 0 {
		out.Limits[v1.ResourceMemory] = *resource.NewQuantity(l.Memory, resource.BinarySI)
	}
	return out
}

// groupName is the name of a container's cgroup in that of the pod.
func groupName(key containerKey) string {
	return strings.TrimPrefix(filepath.Base(key.sandbox.dir()), sandboxPrefix) + "." + key.base()
}

// removeGroup removes the cgroup of a container that does not run. It precedes the removal of the
// container's records, which name the cgroup.
func (r *Runtime) removeGroup(ctx context.Context, in *instance) error {
	spec, presence, err := read[record.Spec](r, in, record.SpecFile)
	switch {
	case err != nil:
		return err
	case presence == present && spec.Cgroup != nil:
		return removeGroup(ctx, spec.Cgroup)
	case presence == present || r.cgroup == nil:
		return nil
	}
	// The record is damaged.
	return removeGroup(ctx, r.cgroup.Group(string(in.key.sandbox.uid), groupName(in.key)))
}

func removeGroup(ctx context.Context, g *record.Cgroup) error {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTime)
	defer cancel()
	if err := cgroup.Remove(ctx, g); err != nil {
		return fmt.Errorf("remove the cgroup: %w", err)
	}
	return nil
}

// removeGroups removes the cgroups of a stopped sandbox.
func (r *Runtime) removeGroups(ctx context.Context, key sandboxKey) error {
	s, err := r.openSandbox(key.id())
	if err != nil {
		return err
	}
	defer s.close()
	keys, err := s.containers()
	if err != nil {
		return err
	}
	for _, key := range keys {
		in, err := s.open(r, key)
		if errors.Is(err, runtime.ErrNotFound) {
			continue
		}
		if err == nil {
			err = r.removeGroup(ctx, in)
			in.close()
		}
		if err != nil {
			return fmt.Errorf("container %s: %w", key.name, err)
		}
	}
	return nil
}
