// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	plugins "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/runtime"
)

// errAway means that the plug-in left between the admission and the allocation.
var errAway = errors.New("the device plug-in is away")

// allocate asks the plug-ins for all pending devices of a pod. Only the pod's worker calls allocate.
func (m *Manager) allocate(ctx context.Context, pod *v1.Pod) error {
	asked := false
	for {
		m.mu.Lock()
		pending := m.mu.book.Pending(pod.UID)
		if len(pending) == 0 {
			m.mu.Unlock()
			break
		}
		h := pending[0]
		plugin, isKnown := m.mu.plugins[h.Resource], m.mu.book.IsKnown(h.Resource)
		choice, ok := m.mu.book.Choice(h)
		m.mu.Unlock()
		switch {
		case plugin == nil && isKnown:
			return errAway
		case plugin == nil:
			return errors.New("cannot allocate unregistered device " + h.Resource)
		}
		if ok {
			if h, ok = m.prefer(ctx, pod, h, choice, plugin); !ok {
				continue
			}
		}
		if err := m.call(ctx, plugin, h); err != nil {
			return err
		}
		asked = true
	}
	if asked {
		m.save()
	}
	return nil
}

// prefer lets the plug-in choose, and returns the holding with the chosen devices. ok is false if the
// pod has lost the holding.
func (m *Manager) prefer(ctx context.Context, pod *v1.Pod, h ledger.Holding, c ledger.Choice, plugin Plugin) (ledger.Holding, bool) {
	limited, cancel := context.WithTimeout(ctx, AllocateTimeout)
	defer cancel()
	ids, err := plugin.Prefer(limited, c)
	if err != nil {
		m.log.Warn("device plug-in has no preference", feature.PodField(pod), zap.String("container", h.Container), zap.String("resource", h.Resource), zap.Error(err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(ids) > 0 {
		if err := m.mu.book.Prefer(pod, h.Slot, ids); err != nil { // a device has become unhealthy: the first choice stays
			m.log.Debug("preferred devices are not free", feature.PodField(pod), zap.Error(err))
		}
	}
	for _, now := range m.mu.book.Pending(pod.UID) {
		if now.Slot == h.Slot {
			return now, true
		}
	}
	return h, false
}

// call makes the Allocate call for a holding and stores the answer.
func (m *Manager) call(ctx context.Context, plugin Plugin, h ledger.Holding) error {
	limited, cancel := context.WithTimeout(ctx, AllocateTimeout)
	defer cancel()
	began := time.Now()
	answer, err := plugin.Allocate(limited, h.IDs())
	m.opts.Hooks.Allocated(h.Resource, time.Since(began))
	if err != nil {
		return err
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(answer)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.book.Commit(h.Slot, data)
	return nil
}

// extend adds the answers of the plug-ins to the spec of a container. The pod's own environment and
// annotations take precedence over those of plug-ins. If two plug-ins set the same item, the resource
// that is first by name wins.
func (m *Manager) extend(ctx context.Context, pod *v1.Pod, c *v1.Container, spec *runtime.ContainerSpec) error {
	holdings, err := m.holdings(pod, c)
	if err != nil {
		return err
	}
	var mounts []runtime.Mount
	for _, h := range holdings {
		answer := &plugins.ContainerAllocateResponse{}
		if err := proto.Unmarshal(h.Response, answer); err != nil {
			return fmt.Errorf("resources.limits[%q]: the recorded answer of the device plug-in: %w", h.Resource, err)
		}
		apply(answer, spec, &mounts, h.Resource)
		m.mu.Lock()
		plugin := m.mu.plugins[h.Resource]
		m.mu.Unlock()
		if plugin == nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, PreStartTimeout)
		err := plugin.PreStart(limited, h.IDs())
		cancel()
		if err != nil {
			return fmt.Errorf("resources.limits[%q]: device plugin PreStartContainer rpc failed with err: %w", h.Resource, err)
		}
	}
	spec.Mounts = append(mounts, spec.Mounts...) // a volume hides the mount of a plug-in
	return nil
}

// holdings returns the devices of a container, sorted by resource. The error names a resource for
// which the container has no devices.
func (m *Manager) holdings(pod *v1.Pod, c *v1.Container) (all []ledger.Holding, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.mu.book.Of(pod.UID) {
		if h.Container == c.Name && h.IsCommitted() {
			all = append(all, h)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		quantity, resource := c.Resources.Limits[name], string(name)
		if quantity.Sign() <= 0 || !m.mu.book.IsKnown(resource) || slices.ContainsFunc(all, func(h ledger.Holding) bool { return h.Resource == resource }) {
			continue
		}
		return nil, fmt.Errorf("resources.limits[%q]: no devices are allocated", resource)
	}
	return all, nil
}

// apply adds an answer to the spec of a container, and its mounts to mounts.
func apply(answer *plugins.ContainerAllocateResponse, spec *runtime.ContainerSpec, mounts *[]runtime.Mount, resource string) {
	for _, name := range slices.Sorted(maps.Keys(answer.Envs)) {
		if !slices.ContainsFunc(spec.Env, func(e runtime.EnvVar) bool { return e.Name == name }) {
			spec.Env = append(spec.Env, runtime.EnvVar{Name: name, Value: answer.Envs[name]})
		}
	}
	for _, mount := range answer.Mounts {
		if !slices.ContainsFunc(*mounts, func(m runtime.Mount) bool { return m.ContainerPath == mount.ContainerPath }) {
			*mounts = append(*mounts, runtime.Mount{
				Name: "device plug-in of " + resource, HostPath: mount.HostPath, ContainerPath: mount.ContainerPath, ReadOnly: mount.ReadOnly,
			})
		}
	}
	for _, d := range answer.Devices {
		if !slices.ContainsFunc(spec.Devices, func(x runtime.Device) bool { return x.ContainerPath == d.ContainerPath }) {
			spec.Devices = append(spec.Devices, runtime.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: d.Permissions})
		}
	}
	for key, value := range answer.Annotations {
		if _, isSet := spec.Annotations[key]; !isSet {
			if spec.Annotations == nil {
				spec.Annotations = map[string]string{}
			}
			spec.Annotations[key] = value
		}
	}
	for _, d := range answer.CdiDevices {
		if !slices.Contains(spec.CDIDevices, d.Name) {
			spec.CDIDevices = append(spec.CDIDevices, d.Name)
		}
	}
}
