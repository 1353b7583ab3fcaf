// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/checkpoint"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// maxCheckpoint is the largest size of a checkpoint, in bytes.
const maxCheckpoint = 64 << 20

// open reads the checkpoint. An unusable checkpoint is logged: the running containers keep their
// devices, and the node does not know which.
func (m *Manager) open() {
	path := filepath.Join(m.opts.Dir, checkpoint.FileName)
	data, err := atomicfile.ReadPath(path, maxCheckpoint)
	var state checkpoint.State
	if err == nil {
		state, err = checkpoint.Decode(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Error("the record of the devices of running containers was not read", zap.String("file", path), zap.Error(err))
	}
	holdings, resources := restored(state)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.opened = time.Now()
	m.mu.book.Restore(holdings, resources)
	for _, resource := range resources {
		m.mu.away[resource] = m.mu.opened
	}
}

// save writes the checkpoint if it has changed.
func (m *Manager) save() {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	state := stateOf(m.mu.book)
	m.mu.Unlock()
	data, err := checkpoint.Encode(state)
	if err == nil && !bytes.Equal(data, m.saved) {
		err = atomicfile.WritePath(filepath.Join(m.opts.Dir, checkpoint.FileName), data)
	}
	if err != nil {
		m.log.Error("the devices of containers are not on the disk", zap.Error(err))
		return
	}
	m.saved = data
}

// stateOf returns the committed holdings and the healthy devices of a ledger.
func stateOf(book *ledger.Ledger) checkpoint.State {
	s := checkpoint.State{Registered: map[string][]string{}}
	for _, h := range book.Holdings() {
		if !h.IsCommitted() {
			continue
		}
		e := checkpoint.PodDevicesEntry{
			PodUID: string(h.Pod), ContainerName: h.Container, ResourceName: h.Resource,
			DeviceIDs: checkpoint.DevicesPerNUMA{}, AllocResp: h.Response,
		}
		for _, d := range h.Devices {
			for _, node := range nodesOf(d) {
				e.DeviceIDs[node] = append(e.DeviceIDs[node], d.ID)
			}
		}
		s.Entries = append(s.Entries, e)
	}
	for resource, devices := range book.Healthy() {
		s.Registered[resource] = []string{}
		for _, d := range devices {
			s.Registered[resource] = append(s.Registered[resource], d.ID)
		}
	}
	return s
}

// nodesOf returns the keys of a device in checkpoint.DevicesPerNUMA.
func nodesOf(d ledger.Device) []int64 {
	if len(d.NUMA) == 0 {
		return []int64{checkpoint.NoNUMA}
	}
	return d.NUMA
}

// restored returns the holdings and the known resources of a checkpoint.
func restored(s checkpoint.State) (holdings []ledger.Holding, resources []string) {
	known := map[string]bool{}
	for resource := range s.Registered {
		known[resource] = true
	}
	for _, e := range s.Entries {
		known[e.ResourceName] = true
		byID := map[string]*ledger.Device{}
		for node, ids := range e.DeviceIDs {
			for _, id := range ids {
				if byID[id] == nil {
					byID[id] = &ledger.Device{ID: id}
				}
				if node != checkpoint.NoNUMA {
					byID[id].NUMA = append(byID[id].NUMA, node)
				}
			}
		}
		h := ledger.Holding{
			Slot:     ledger.Slot{Pod: types.UID(e.PodUID), Container: e.ContainerName, Resource: e.ResourceName},
			Response: append([]byte{}, e.AllocResp...),
		}
		for _, d := range byID {
			slices.Sort(d.NUMA)
			h.Devices = append(h.Devices, *d)
		}
		slices.SortFunc(h.Devices, func(a, b ledger.Device) int { return cmp.Compare(a.ID, b.ID) })
		holdings = append(holdings, h)
	}
	return holdings, slices.Sorted(maps.Keys(known))
}
