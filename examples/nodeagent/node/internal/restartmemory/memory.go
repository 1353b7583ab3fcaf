// SPDX-License-Identifier: Apache-2.0

// Package restartmemory stores the readiness of the containers of static pods for the next agent,
// because the runtime does not store it. Without the package, a restart of the agent takes every
// probed static pod out of service until its first probe (kubernetes#133579). The readiness of
// other pods is stored by the API server or in the checkpoint.
//
// The file refers to container instances by container ID, so an entry cannot become wrong later.
package restartmemory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig"
)

// Memory reads the file of the earlier agent and writes the file for the next agent.
type Memory struct {
	host   *feature.Host
	path   string
	dirty  signal.Signal
	former *feature.Slot[remembered] // read from the file
}

// remembered maps the container IDs of a pod to verdicts.
type remembered map[string]verdict

// verdict is the result of a container instance's probes.
type verdict struct {
	Name    string
	Ready   bool
	Started bool
}

const (
	// delay is the time between a change and the write, so that several changes are written
	// together.
	delay = 2 * time.Second
	// maxSize is the largest accepted size of the file in bytes. A container takes about 100 bytes.
	maxSize = 16 << 20
)

// New returns a Memory for the file ready.json in the host's root folder. New does not access the
// file.
func New(h *feature.Host) *Memory {
	return &Memory{host: h, path: filepath.Join(h.Root, "ready.json"), dirty: signal.New(), former: feature.NewSlot[remembered](h.Table)}
}

// Feature returns the functions that Memory adds to the node.
func (m *Memory) Feature() feature.Feature {
	return feature.Feature{Name: "restart-memory", Open: m.open, Published: m.published, Run: m.run}
}

// open reads the file. An unusable file is logged and ignored.
func (m *Memory) open() {
	if err := m.load(); err != nil {
		m.host.Log.Warn("readiness of static pods was not read: probed containers are not ready before their probes succeed", zap.Error(err))
	}
}

func (m *Memory) load() error {
	data, err := atomicfile.ReadPath(m.path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	former := make(map[types.UID]remembered)
	if err := json.Unmarshal(data, &former); err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	for uid, verdicts := range former {
		m.former.Set(uid, verdicts)
	}
	return nil
}

// run writes the file after changes until ctx ends, and a last time when ctx ends.
func (m *Memory) run(ctx context.Context) error {
	failed := failurelog.Log{Logger: m.host.Log, Failed: "cannot remember which static pods are ready"}
	written, _ := atomicfile.ReadPath(m.path, maxSize)
	if written == nil {
		written = []byte("{}") // an empty memory needs no file
	}
	for ctx.Err() == nil {
		select {
		case <-m.dirty:
			_ = retry.Sleep(ctx, delay)
		case <-ctx.Done():
		}
		data, err := json.Marshal(m.known())
		if err == nil && !bytes.Equal(data, written) {
			err = m.write(data)
		}
		failed.Report(err)
		if err == nil {
			written = data
		}
	}
	return nil
}

// write replaces the file atomically.
func (m *Memory) write(data []byte) error {
	if err := os.MkdirAll(filepath.Dir(m.path), 0o700); err != nil {
		return err
	}
	return atomicfile.WritePath(m.path, data)
}

// published schedules a write after a status change of a probed static pod.
func (m *Memory) published(pod *v1.Pod, _ v1.PodStatus) {
	if podconfig.IsStatic(pod) && podfacts.HasProbes(&pod.Spec) {
		m.dirty.Notify()
	}
}

// Recall returns a static pod with the container statuses from the file. It returns other pods
// unchanged.
func (m *Memory) Recall(pod *v1.Pod) *v1.Pod {
	former := m.former.Get(pod.UID)
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

// known returns the content of the next file: the verdicts of running containers of static pods,
// and the entries of the old file for pods that no source has listed yet.
func (m *Memory) known() map[types.UID]remembered {
	known := maps.Collect(m.former.All())
	for _, pod := range m.host.Pods() {
		if !podconfig.IsStatic(pod) || pod.Status.StartTime == nil {
			continue
		}
		delete(known, pod.UID)
		if found := verdicts(&pod.Status); len(found) > 0 && podfacts.HasProbes(&pod.Spec) {
			known[pod.UID] = found
		}
	}
	return known
}

func verdicts(s *v1.PodStatus) remembered {
	found := remembered{}
	for c := range podfacts.Statuses(s) {
		if c.State.Running != nil {
			found[c.ContainerID] = verdict{c.Name, c.Ready, c.Started != nil && *c.Started}
		}
	}
	return found
}
