// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/expansion"
)

// maxProcessStrings is the maximum size of a container's environment, command and args, in bytes.
// Linux accepts at most 6 MiB, so the bound refuses no container that could run. Without a bound, a
// manifest of 1 KB could exhaust the agent's memory, with variables that each contain the previous
// variable twice.
const maxProcessStrings = 8 << 20

// environment is a container's environment under construction. Names are unique and in the order of
// their first appearance.
type environment struct {
	vars  []EnvVar
	index map[string]int // index in vars by name
	size  int            // bytes, as counted by the kernel

	behind map[string]string // variables that follow vars, unless vars has the name
}

// set sets a variable. An existing name keeps its position. Errors never show the value.
func (e *environment) set(name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return fmt.Errorf("%q cannot be the name of an environment variable", name)
	}
	if strings.IndexByte(value, 0) >= 0 {
		return fmt.Errorf("the value of %s has a NUL byte", name)
	}
	i, ok := e.index[name]
	grow := len(value)
	if ok {
		grow -= len(e.vars[i].Value)
	} else {
		grow += len(name) + len("=\x00")
	}
	if e.size+grow > maxProcessStrings {
		return errTooLarge
	}
	e.size += grow
	if ok {
		e.vars[i].Value = value
		return nil
	}
	if e.index == nil {
		e.index = make(map[string]int)
	}
	e.index[name] = len(e.vars)
	e.vars = append(e.vars, EnvVar{Name: name, Value: value})
	return nil
}

func (e *environment) lookup(name string) (string, bool) {
	if i, ok := e.index[name]; ok {
		return e.vars[i].Value, true
	}
	value, ok := e.behind[name]
	return value, ok
}

// expand expands s with the variables up to now.
func (e *environment) expand(s string) (string, error) {
	out, ok := expansion.Expand(s, maxProcessStrings-e.size, e.lookup)
	if !ok {
		return "", errTooLarge
	}
	return out, nil
}

var errTooLarge = fmt.Errorf("environment, command and args are larger than %d MiB", maxProcessStrings>>20)

// expandAll expands a command or args. The result counts towards the same bound, and is nil for
// nil.
func (e *environment) expandAll(field string, list []string) ([]string, error) {
	var out []string
	for i, s := range list {
		x, err := e.expand(s)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		e.size += len(x) + 1
		out = append(out, x)
	}
	return out, nil
}

// envSources are the sources of a container's environment.
type envSources struct {
	pod         *v1.Pod
	container   *v1.Container
	podIPs      []string // of the sandbox
	hostIPs     []string // of the node
	allocatable v1.ResourceList
	objects     *objectReader
	services    []EnvVar // variables of Services, from serviceEnv
}

// build resolves the container's environment: first envFrom, then env, each in order. Errors begin
// with the path of the field below the container.
//
// Names are in the order of their first mention. The keys of a ConfigMap or Secret are sorted. A
// later mention replaces the value in place. A reference sees the variables built before, so a
// reference to a later variable stays as written. A variable with a missing optional source stays
// unchanged. References see the variables of all Services. The variables of Services come last in
// the result, except for names that are already set.
func (s *envSources) build(ctx context.Context) (*environment, error) {
	env := &environment{behind: make(map[string]string, len(s.services))}
	for _, v := range s.services {
		env.behind[v.Name] = v.Value
	}
	for i := range s.container.EnvFrom {
		if err := s.addFrom(ctx, env, &s.container.EnvFrom[i]); err != nil {
			return nil, fmt.Errorf("envFrom[%d]%w", i, err)
		}
	}
	for i := range s.container.Env {
		if err := s.add(ctx, env, &s.container.Env[i]); err != nil {
			return nil, fmt.Errorf("env[%d]%w", i, err)
		}
	}
	for _, v := range s.services {
		if _, ok := env.index[v.Name]; ok {
			continue
		}
		if err := env.set(v.Name, v.Value); err != nil {
			return nil, fmt.Errorf("env: variables of Services: %w", err)
		}
	}
	return env, nil
}

// addFrom adds all keys of a ConfigMap or Secret. Its errors begin with "." or ":", to follow the
// path of the entry.
func (s *envSources) addFrom(ctx context.Context, env *environment, from *v1.EnvFromSource) error {
	var data map[string]string
	var field string
	var optional *bool
	var err error
	switch {
	case from.ConfigMapRef != nil:
		field, optional = ".configMapRef", from.ConfigMapRef.Optional
		data, err = s.objects.configMap(ctx, from.ConfigMapRef.Name)
	case from.SecretRef != nil:
		field, optional = ".secretRef", from.SecretRef.Optional
		data, err = s.objects.secret(ctx, from.SecretRef.Name)
	default:
		return errors.New(": needs configMapRef or secretRef")
	}
	if err != nil {
		return unlessOptional(field, optional, err)
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if err := env.set(from.Prefix+key, data[key]); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// add adds a variable. Its errors begin with "." or ":", as in addFrom.
func (s *envSources) add(ctx context.Context, env *environment, v *v1.EnvVar) error {
	value := v.Value
	var err error
	switch {
	case value != "":
		if value, err = env.expand(value); err != nil {
			return fmt.Errorf(".value: %w", err)
		}
	case v.ValueFrom != nil:
		var found bool
		value, found, err = s.resolve(ctx, v.ValueFrom)
		if err != nil {
			return fmt.Errorf(".valueFrom%w", err)
		}
		if !found {
			return nil
		}
	}
	if err := env.set(v.Name, value); err != nil {
		return fmt.Errorf(": %w", err)
	}
	return nil
}

// resolve returns the value of a source. found is false for a missing optional source.
func (s *envSources) resolve(ctx context.Context, from *v1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = s.fieldRef(from.FieldRef)
		return value, true, atField(".fieldRef", err)
	case from.ResourceFieldRef != nil:
		value, err = s.resourceFieldRef(from.ResourceFieldRef)
		return value, true, atField(".resourceFieldRef", err)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := s.objects.configMap(ctx, ref.Name)
		return keyOf(".configMapKeyRef", data, ref.Key, ref.Optional, err)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := s.objects.secret(ctx, ref.Name)
		return keyOf(".secretKeyRef", data, ref.Key, ref.Optional, err)
	case from.FileKeyRef != nil:
		return "", false, fmt.Errorf(".fileKeyRef: %w", ErrUnsupported)
	default:
		return "", false, errors.New(": names no source")
	}
}

func keyOf(field string, data map[string]string, key string, optional *bool, err error) (string, bool, error) {
	if err != nil {
		return "", false, unlessOptional(field, optional, err)
	}
	value, ok := data[key]
	if !ok {
		return "", false, unlessOptional(field, optional, fmt.Errorf("key %q: %w", key, ErrNotFound))
	}
	return value, true, nil
}

// unlessOptional turns the error about a missing optional source into success. Other errors stay:
// an unreachable source may exist.
func unlessOptional(field string, optional *bool, err error) error {
	if optional != nil && *optional && isMissing(err) {
		return nil
	}
	return atField(field, err)
}

func atField(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}
