// SPDX-License-Identifier: Apache-2.0

package cgroups_test

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
)

// memory is a Writer without a machine. A value 0 of Values is not written.
type memory struct {
	mu        sync.Mutex
	groups    map[string]cgroups.Values
	processes map[string]bool // cgroups with a process
	journal   []string        // paths of Kill, Remove and of Ensure with the memory limit
	refuse    map[string]error
}

func newMemory() *memory {
	return &memory{groups: map[string]cgroups.Values{"/": {}}, processes: map[string]bool{}, refuse: map[string]error{}}
}

func (m *memory) Ensure(name string, v cgroups.Values) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuse[name]; err != nil {
		return err
	}
	for parent := name; parent != "/"; parent = path.Dir(parent) {
		if _, made := m.groups[parent]; !made {
			m.groups[parent] = cgroups.Values{}
		}
	}
	have := m.groups[name]
	for _, set := range []struct{ have, v *int64 }{
		{&have.CPUShares, &v.CPUShares}, {&have.CPUQuota, &v.CPUQuota}, {&have.Memory, &v.Memory}, {&have.PIDs, &v.PIDs}, {&have.MemoryMin, &v.MemoryMin}, {&have.MemoryLow, &v.MemoryLow},
	} {
		if *set.v != 0 {
			*set.have = *set.v
		}
	}
	m.groups[name] = have
	return nil
}

func (m *memory) Limits(name string) (cgroups.Values, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, exists := m.groups[name]
	v.CPUShares = 0
	return v, exists, m.refuse["limits of "+name]
}

func (m *memory) Kill(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal = append(m.journal, "kill "+name)
	delete(m.processes, name)
	return nil
}

func (m *memory) Remove(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.processes[name] {
		return errors.Join(cgroups.ErrBusy)
	}
	maps.DeleteFunc(m.groups, func(other string, _ cgroups.Values) bool { return other == name || strings.HasPrefix(other, name+"/") })
	m.journal = append(m.journal, "remove "+name)
	return nil
}

// value returns the values of a cgroup.
func (m *memory) value(name string) (v cgroups.Values, exists bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, exists = m.groups[name]
	return v, exists
}

// change calls f under the lock.
func (m *memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// names returns the paths of all cgroups but the root.
func (m *memory) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.groups)), func(name string) bool { return name == "/" })
}
