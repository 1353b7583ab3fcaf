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

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// What a container finds in its environment beside its spec's.
const (
	// envRoot is the working folder, below which mounts appear; it is also HOME
	// and the working directory unless the spec says otherwise.
	envRoot = "KEELSON_ROOT"

	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// surroundings are what compose needs beside the spec.
type surroundings struct {
	id       string
	work     string // the working folder, absolute
	hostname string
	path     string // PATH of the agent; the only variable that passes on
}

// compose turns a container's spec into what is recorded and run. Pure. Its
// errors name variables and paths, never values.
func compose(spec runtime.ContainerSpec, at surroundings) (record.Spec, error) {
	rec := record.Spec{
		ID: at.id, Name: spec.Name, RestartCount: spec.RestartCount, Hash: spec.Hash,
		Image: spec.Image, Annotations: maps.Clone(spec.Annotations),
		Args: slices.Concat(spec.Command, spec.Args), LogPath: spec.LogPath,
	}
	if len(spec.Command) == 0 {
		return rec, &runtime.UnsupportedError{Runtime: Name, Fields: []string{"command (" + whyCommand + ")"}}
	}
	if slices.ContainsFunc(rec.Args, func(a string) bool { return strings.Contains(a, "\x00") }) {
		return rec, errors.New("an argument holds a NUL byte")
	}
	if spec.LogPath != "" && !filepath.IsAbs(spec.LogPath) {
		return rec, fmt.Errorf("log path: %q is not absolute", spec.LogPath)
	}
	var err error
	if rec.Mounts, err = mounts(spec.Mounts); err != nil {
		return rec, err
	}
	if rec.Env, err = environment(spec.Env, at); err != nil {
		return rec, err
	}
	rec.Dir = at.work
	switch {
	case path.IsAbs(spec.WorkingDir):
		rec.Dir = shown(rec.Mounts, spec.WorkingDir)
	case spec.WorkingDir != "":
		rec.Dir = path.Join(at.work, path.Clean("/"+spec.WorkingDir))
	}
	if path.IsAbs(rec.Args[0]) {
		if p := shown(rec.Mounts, rec.Args[0]); p != rec.Args[0] {
			rec.Path = p
		}
	}
	rec.StopSignal = int(unix.SIGTERM)
	if spec.Container != nil {
		addContainer(&rec, spec.Container)
	}
	return rec, nil
}

// addContainer adds what has no field of its own in runtime.ContainerSpec.
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
	if sc := c.SecurityContext; sc != nil && sc.AllowPrivilegeEscalation != nil {
		rec.NoNewPrivs = !*sc.AllowPrivilegeEscalation
	}
}

// signalNumber returns the number of a signal by its name in the API.
func signalNumber(name v1.Signal) (unix.Signal, bool) {
	const rtMin, rtMax = 34, 64 // as the C library counts, which keeps two for itself
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

// mounts checks and sorts the mounts: parents first, which is only for the eye,
// since one inside another is refused.
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
	slices.SortFunc(out, func(a, b record.Mount) int { return cmp.Compare(a.ContainerPath, b.ContainerPath) })
	return out, nil
}

// within reports whether p is at or below dir. Both are absolute and clean.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// shown translates a path as the container's spec writes it to one of the host:
// at or below a mount it is the mount's, else it is the host's own.
func shown(mounts []record.Mount, p string) string {
	clean := path.Clean(p)
	for _, m := range mounts {
		if within(clean, m.ContainerPath) {
			return m.HostPath + strings.TrimPrefix(clean, m.ContainerPath)
		}
	}
	return p
}

// environment returns the whole environment, sorted by who says it: the
// backend's defaults that the spec does not override, the spec's in its order,
// then the mark, which cannot be overridden.
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
		{Name: "HOME", Value: at.work},
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

// messagePath returns where within the working folder a container's termination
// message is; empty if a mount hides it, because links are not followed there.
func messagePath(c *v1.Container, mounted func(p string) bool) string {
	p := path.Clean("/" + cmp.Or(c.TerminationMessagePath, v1.TerminationMessagePathDefault))
	if p == "/" || mounted(p) {
		return ""
	}
	return p[1:]
}
