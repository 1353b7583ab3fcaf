// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig"
)

// memory keeps what the next agent on this node cannot learn from the runtime:
// which containers of static pods were ready. Without it a restart of the agent
// takes every probed static pod out of service until its first probe
// (kubernetes#133579); of other pods the API server or the checkpoint knows.
//
// What it says is of container instances, so none of it can be wrong later; and a
// file that is lost, or torn by a power cut, costs some pod its readiness for a
// moment. So it is not forced to the disk.
type memory struct {
	agent *Agent
	path  string
	dirty chan struct{} // capacity 1
	empty []byte        // what a file that is not there holds; nil if it is there

	mu struct {
		sync.Mutex
		former map[types.UID]remembered // what the agent before this one knew
	}
}

// remembered is what is known of a pod: verdicts by container ID.
type remembered map[string]verdict

// verdict is what the probes of an instance have found out.
type verdict struct {
	Name    string
	Ready   bool
	Started bool
}

const (
	// memoryDelay is for how long changes are gathered.
	memoryDelay = 2 * time.Second
	// maxMemory is how large the file may be, in bytes: some 100 for a container.
	maxMemory = 16 << 20
)

// openMemory reads what the agent before this one left. A file that cannot be
// used is said, and done without.
func (a *Agent) openMemory() *memory {
	m := &memory{agent: a, path: filepath.Join(a.opts.Root, "ready.json"), dirty: make(chan struct{}, 1)}
	if err := m.load(); err != nil {
		a.log.Warn("forgot which static pods were ready: those with probes are not before they have passed", zap.Error(err))
	}
	return m
}

func (m *memory) load() error {
	m.mu.former = make(map[types.UID]remembered)
	f, err := os.Open(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		m.empty = []byte("{}") // which need not be written
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	former := make(map[types.UID]remembered)
	if err := json.NewDecoder(io.LimitReader(f, maxMemory)).Decode(&former); err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	m.mu.former = former
	return nil
}

// run keeps the file up to date until ctx ends, and once more then.
func (m *memory) run(ctx context.Context) {
	written, failing := m.empty, false
	for ctx.Err() == nil {
		select {
		case <-m.dirty:
			sleep(ctx, memoryDelay)
		case <-ctx.Done():
		}
		data, err := json.Marshal(m.known())
		if err == nil && !bytes.Equal(data, written) {
			err = m.write(data)
		}
		if err != nil && !failing {
			m.agent.log.Warn("cannot remember which static pods are ready", zap.Error(err))
		}
		if failing = err != nil; !failing {
			written = data
		}
	}
}

// write replaces the file, which has the old content or the new one.
func (m *memory) write(data []byte) error {
	if err := os.MkdirAll(filepath.Dir(m.path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(m.path+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(m.path+".tmp", m.path)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// note hears that a status has changed.
func (m *memory) note(pod *v1.Pod) {
	if !podconfig.IsStatic(pod) || !probed(pod) {
		return
	}
	select {
	case m.dirty <- struct{}{}:
	default:
	}
}

// recall returns the pod with what is remembered of it, if it is a static one.
func (m *memory) recall(pod *v1.Pod) *v1.Pod {
	m.mu.Lock()
	former := m.mu.former[pod.UID]
	m.mu.Unlock()
	if former == nil || !podconfig.IsStatic(pod) || len(pod.Status.ContainerStatuses) > 0 {
		return pod
	}
	shallow := *pod
	for id, v := range former {
		shallow.Status.ContainerStatuses = append(shallow.Status.ContainerStatuses,
			v1.ContainerStatus{Name: v.Name, ContainerID: id, Ready: v.Ready, Started: &v.Started})
	}
	return &shallow
}

// keep forgets pods that nobody wants any more.
func (m *memory) keep(known func(types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.mu.former, func(uid types.UID, _ remembered) bool { return !known(uid) })
}

// known is what is worth remembering: the verdicts on what runs of static pods,
// and those on pods that have not come back yet.
func (m *memory) known() map[types.UID]remembered {
	m.mu.Lock()
	known := maps.Clone(m.mu.former)
	m.mu.Unlock()
	for _, pod := range m.agent.statuses.all() {
		if !podconfig.IsStatic(pod) || pod.Status.StartTime == nil {
			continue
		}
		delete(known, pod.UID)
		if found := verdicts(&pod.Status); len(found) > 0 && probed(pod) {
			known[pod.UID] = found
		}
	}
	return known
}

func verdicts(s *v1.PodStatus) remembered {
	found := remembered{}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			if c := &list[i]; c.State.Running != nil {
				found[c.ContainerID] = verdict{c.Name, c.Ready, c.Started != nil && *c.Started}
			}
		}
	}
	return found
}
