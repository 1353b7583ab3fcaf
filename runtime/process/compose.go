// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// The backend's own variables in a container's environment.
const (
	// envRoot names the working folder, below which mounts appear. The working folder is also
	// HOME and the working directory, unless the spec sets them.
	envRoot = "KEELSON_ROOT"

	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// surroundings are the inputs of compose in addition to the spec.
type surroundings struct {
	id       string
	work     string // the working folder, absolute
	hostname string
	path     string // PATH of the agent; the agent's other variables are not passed on
	isolated bool   // the container has a root file system of its own
	image    *RootFS
}

// compose turns a container's spec into the record that the shim runs. Pure. Errors name variables
// and paths, never values.
func compose(spec runtime.ContainerSpec, at surroundings) (record.Spec, error) {
	if at.image != nil {
		if spec = at.image.override(spec); len(spec.Command) == 0 {
			return record.Spec{}, errNoCommand
		}
	}
	rec := record.Spec{
		ID: at.id, Name: spec.Name, RestartCount: spec.RestartCount, Hash: spec.Hash,
		Image: spec.Image, ImageID: spec.ImageID, Annotations: maps.Clone(spec.Annotations),
		Args: slices.Concat(spec.Command, spec.Args), LogPath: spec.LogPath,
	}
	if len(spec.Command) == 0 {
		return rec, &runtime.UnsupportedError{Runtime: name, Fields: []string{"command (" + whyCommand + ")"}}
	}
	if slices.ContainsFunc(rec.Args, func(a string) bool { return strings.Contains(a, "\x00") }) {
		return rec, errors.New("an argument holds a NUL byte")
	}
	if spec.LogPath != "" && !filepath.IsAbs(spec.LogPath) {
		return rec, fmt.Errorf("log path: %q is not absolute", spec.LogPath)
	}
	if fields := refusedDevices(spec.Devices, spec.CDIDevices); len(fields) > 0 {
		return rec, &runtime.UnsupportedError{Runtime: name, Fields: fields}
	}
	var err error
	if at.isolated {
		at.work = "" // of names in the container
	} else if rec.Mounts, err = mounts(spec.Mounts); err != nil {
		return rec, err
	}
	if rec.Env, err = environment(spec.Env, at); err != nil {
		return rec, err
	}
	rec.Dir = cmp.Or(at.work, "/")
	switch {
	case path.IsAbs(spec.WorkingDir):
		rec.Dir = shown(rec.Mounts, spec.WorkingDir)
	case spec.WorkingDir != "":
		rec.Dir = path.Join(cmp.Or(at.work, "/"), path.Clean("/"+spec.WorkingDir))
	}
	if path.IsAbs(rec.Args[0]) {
		if p := shown(rec.Mounts, rec.Args[0]); p != rec.Args[0] {
			rec.Path = p
		}
	}
	rec.StopSignal = int(unix.SIGTERM)
	if at.image != nil {
		if sig, ok := signalNumber(v1.Signal(at.image.StopSignal)); ok {
			rec.StopSignal = int(sig)
		} else if n, err := strconv.Atoi(at.image.StopSignal); err == nil && n > 0 && n < 65 {
			rec.StopSignal = n
		}
	}
	if spec.Container != nil {
		addContainer(&rec, spec.Container)
	}
	return rec, nil
}

// refusedDevices lists the devices that cannot be granted. A process sees the host's /dev and opens
// a device with the agent's rights. A device is therefore granted only at the device's own path,
// and only with permission to read and to write, because neither can be withheld.
func refusedDevices(devices []runtime.Device, cdi []string) (fields []string) {
	for i, d := range devices {
		at := fmt.Sprintf("ContainerSpec.Devices[%d].", i)
		if path.Clean(d.ContainerPath) != path.Clean(d.HostPath) {
			fields = append(fields, at+"ContainerPath ("+whyHost+")")
		}
		if !strings.Contains(d.Permissions, "r") || !strings.Contains(d.Permissions, "w") {
			fields = append(fields, at+"Permissions ("+whyRights+")")
		}
	}
	if len(cdi) > 0 {
		fields = append(fields, "ContainerSpec.CDIDevices ("+whyHost+")")
	}
	return fields
}

// addContainer adds the settings without a field in runtime.ContainerSpec.
func addContainer(rec *record.Spec, c *v1.Container) {
	rec.MessagePath = messagePath(c, func(p string) bool {
		return slices.ContainsFunc(rec.Mounts, func(m record.Mount) bool {
			return within(p, m.ContainerPath) || within(m.ContainerPath, p)
		})
	})
	rec.FallbackToLogs = c.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		if sig, ok := signalNumber(*c.Lifecycle.StopSignal); ok {
			rec.StopSignal = int(sig)
		}
	}
}

// signalNumber returns the number of a signal by its name in the API.
func signalNumber(name v1.Signal) (unix.Signal, bool) {
	const rtMin, rtMax = 34, 64 // as in the C library, which reserves 32 and 33
	s := string(name)
	for _, rt := range []struct {
		prefix     string
		base, sign int
	}{{"SIGRTMIN", rtMin, 1}, {"SIGRTMAX", rtMax, -1}} {
		rest, ok := strings.CutPrefix(s, rt.prefix)
		if !ok {
			continue
		}
		n := 0
		if rest != "" {
			var err error
			if n, err = strconv.Atoi(rest); err != nil {
				return 0, false
			}
		}
		sig := rt.base + n
		return unix.Signal(sig), n*rt.sign >= 0 && sig >= rtMin && sig <= rtMax
	}
	sig := unix.SignalNum(s)
	return sig, sig != 0
}

// mounts checks the mounts and sorts them by path. A mount inside another mount is refused.
func mounts(in []runtime.Mount) ([]record.Mount, error) {
	var out []record.Mount
	for _, m := range in {
		at := path.Clean("/" + m.ContainerPath)
		if at == "/" {
			return nil, fmt.Errorf("volume %s: mounted at %q: there is no root to replace", m.Name, m.ContainerPath)
		}
		if !filepath.IsAbs(m.HostPath) {
			return nil, fmt.Errorf("volume %s: host path %q is not absolute", m.Name, m.HostPath)
		}
		for _, other := range out {
			if within(at, other.ContainerPath) || within(other.ContainerPath, at) {
				return nil, fmt.Errorf("volume %s: mounted at %s, which overlaps %s", m.Name, at, other.ContainerPath)
			}
		}
		out = append(out, record.Mount{HostPath: m.HostPath, ContainerPath: at})
	}
	sorted.By(out, func(a, b record.Mount) int { return cmp.Compare(a.ContainerPath, b.ContainerPath) })
	return out, nil
}

// within reports whether p is at or below dir. Both are absolute and clean.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// shown translates a path of the container's spec to a path of the host. A path at or below a mount
// is translated to the mount's host path. Every other path is the host's already.
func shown(mounts []record.Mount, p string) string {
	clean := path.Clean(p)
	for _, m := range mounts {
		if within(clean, m.ContainerPath) {
			return m.HostPath + strings.TrimPrefix(clean, m.ContainerPath)
		}
	}
	return p
}

// environment returns the whole environment in this order: the backend's defaults that the spec
// does not override, the spec's variables in the spec's order, and the mark, which the spec cannot
// override.
func environment(spec []runtime.EnvVar, at surroundings) ([]string, error) {
	set := map[string]bool{}
	for _, e := range spec {
		if e.Name == "" || strings.ContainsAny(e.Name, "=\x00") {
			return nil, fmt.Errorf("environment: %q is no name of a variable", e.Name)
		}
		if strings.Contains(e.Value, "\x00") {
			return nil, fmt.Errorf("environment: the value of %s holds a NUL byte", e.Name)
		}
		set[e.Name] = true
	}
	var env []string
	for _, e := range []runtime.EnvVar{
		{Name: "PATH", Value: cmp.Or(at.path, defaultPath)},
		{Name: "HOSTNAME", Value: at.hostname},
		{Name: "HOME", Value: cmp.Or(at.work, "/")},
		{Name: envRoot, Value: at.work},
	} {
		if !set[e.Name] {
			env = append(env, e.Name+"="+e.Value)
		}
	}
	for _, e := range spec {
		if e.Name != record.IDEnv {
			env = append(env, e.Name+"="+e.Value)
		}
	}
	return append(env, record.IDEnv+"="+at.id), nil
}

// messagePath returns the path of a container's termination message within the working folder. The
// path is empty if a mount hides the file, because links are not followed out of the folder.
func messagePath(c *v1.Container, mounted func(p string) bool) string {
	p := path.Clean("/" + cmp.Or(c.TerminationMessagePath, v1.TerminationMessagePathDefault))
	if p == "/" || mounted(p) {
		return ""
	}
	return p[1:]
}
