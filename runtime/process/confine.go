// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/walls"
)

// walls returns the walls of a container. A lenient backend leaves out the walls that cannot be had
// here.
func (r *Runtime) walls(spec runtime.ContainerSpec, rec record.Spec, at surroundings) (record.Walls, error) {
	work := at.work
	paths := walls.Paths{
		Work: work, Over: filepath.Join(filepath.Dir(work), record.OverDir),
		Hostname: at.hostname, UID: os.Getuid(), GID: os.Getgid(),
	}
	var pod *v1.PodSecurityContext
	if spec.Pod != nil {
		pod = spec.Pod.Spec.SecurityContext
		paths.HostPID, paths.HostIPC = spec.Pod.Spec.HostPID, spec.Pod.Spec.HostIPC
	}
	if pod != nil {
		for _, group := range pod.SupplementalGroups {
			paths.Groups = append(paths.Groups, uint32(group))
		}
	}
	for _, group := range spec.SupplementalGroups {
		paths.Groups = append(paths.Groups, uint32(group))
	}
	var c *v1.SecurityContext
	if spec.Container != nil {
		c = spec.Container.SecurityContext
	}
	ask := walls.AskOf(pod, c, r.confine)
	if r.lenient {
		ask = r.host.Leniently(ask, r.seccompRoot)
	}
	if rec.MessagePath != "" {
		paths.Message = filepath.Join(work, rec.MessagePath)
	}
	for _, m := range spec.Mounts {
		v := walls.Volume{HostPath: m.HostPath, ContainerPath: path.Clean("/" + m.ContainerPath), ReadOnly: m.ReadOnly}
		if info, err := os.Stat(m.HostPath); at.isolated && err != nil {
			return record.Walls{}, fmt.Errorf("volume %s: %w", m.Name, err)
		} else {
			v.File = err == nil && !info.IsDir()
		}
		v.Follow = spec.Container != nil && slices.ContainsFunc(spec.Container.VolumeMounts, func(vm v1.VolumeMount) bool {
			return vm.Name == m.Name && path.Clean("/"+vm.MountPath) == v.ContainerPath && follows(&vm)
		})
		v.Passing = spec.Pod != nil && slices.ContainsFunc(spec.Pod.Spec.Volumes, func(pv v1.Volume) bool {
			return pv.Name == m.Name && pv.EmptyDir != nil
		})
		paths.Volumes = append(paths.Volumes, v)
	}
	for _, d := range spec.Devices {
		paths.Devices = append(paths.Devices, path.Clean(d.HostPath))
	}
	if at.image != nil {
		var err error
		if paths.Image, err = at.image.overlay(work); err != nil {
			return record.Walls{}, err
		}
	}
	w := r.host.Plan(ask, paths)
	if w.Root != nil && w.Root.UID == 0 && ask.NonRoot {
		return record.Walls{}, errors.New("securityContext.runAsNonRoot: the image's user is root")
	}
	var err error
	if w.Seccomp, err = r.filter(ask); err != nil {
		return record.Walls{}, fmt.Errorf("securityContext.seccompProfile: %w", err)
	}
	return w, nil
}

// filter returns the filter of system calls that a container asks for.
func (r *Runtime) filter(ask walls.Ask) ([]byte, error) {
	switch p := ask.Seccomp; {
	case p == nil || p.Type == v1.SeccompProfileTypeUnconfined:
		return nil, nil
	case p.Type == v1.SeccompProfileTypeRuntimeDefault:
		return r.defaultFilter(r.host.Capabilities(ask))
	case p.Type == v1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		root, err := os.OpenRoot(r.seccompRoot)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		raw, err := root.ReadFile(*p.LocalhostProfile)
		if err != nil {
			return nil, err
		}
		filter, err := walls.LocalFilter(raw, r.host.Capabilities(ask))
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", *p.LocalhostProfile, err)
		}
		return filter, nil
	default:
		return nil, fmt.Errorf("type %q is not known", p.Type)
	}
}

// defaultFilter returns the filter of RuntimeDefault, compiled once for each set of capabilities.
func (r *Runtime) defaultFilter(caps []string) ([]byte, error) {
	key := strings.Join(caps, " ")
	r.mu.Lock()
	defer r.mu.Unlock()
	if filter, ok := r.mu.filters[key]; ok {
		return filter, nil
	}
	filter, err := walls.DefaultFilter(caps)
	if err == nil {
		r.mu.filters[key] = filter
	}
	return filter, err
}
