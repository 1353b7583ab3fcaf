// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// Reason is the status reason of pods that cannot have their devices, as in the kubelet.
const Reason = "UnexpectedAdmissionError"

// absentFor is how long the devices of a pod unknown to the node are kept. The containers of such a
// pod are found and stopped within this time.
const absentFor = 10 * time.Second

// Feature makes the Manager a feature of a node, for node.Options.Features. It is called once, before
// Follow.
func (m *Manager) Feature(h *feature.Host) feature.Feature {
	m.host, m.admitted, m.absent = h, feature.NewSlot[bool](h.Table), feature.NewLastingSlot[time.Time](h.Table)
	m.began = feature.NewSlot[bool](h.Table)
	return feature.Feature{
		Name:      Name,
		Hook:      podsync.Hook{Around: m.around, Input: m.input},
		Open:      m.open,
		Admit:     m.admit,
		Assigns:   m.assigns,
		Container: m.extend,
		Ended:     func(pod *v1.Pod) { m.release(pod.UID) },
		Housekeep: m.housekeep,
		Run:       m.run,
	}
}

// assigns reports whether plug-ins serve the resource, or served it.
func (m *Manager) assigns(name v1.ResourceName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.book.IsKnown(string(name)) || m.mu.gone[string(name)]
}

// admit reserves the devices of a new pod.
func (m *Manager) admit(pod *v1.Pod) feature.AdmitResult {
	m.mu.Lock()
	gone, isNeeded, opened := m.goneResource(pod), m.mu.book.Needs(pod), m.mu.opened
	short := &ledger.Error{}
	err := m.mu.book.Reserve(pod)
	errors.As(err, &short)
	isAway, holders := m.mu.book.IsAway(short.Resource), m.mu.book.Holders(short.Resource)
	m.mu.Unlock()
	switch {
	case gone != "":
		return refusal("cannot allocate unregistered device " + gone)
	case !isNeeded:
		return feature.AdmitResult{}
	case err == nil:
		m.admitted.Set(pod.UID, true)
		return feature.AdmitResult{}
	case short.Cause == ledger.Changed:
	case isAway:
		return feature.AdmitResult{Wait: "the device plug-in of " + short.Resource}
	case slices.ContainsFunc(holders, func(uid types.UID) bool { return uid != pod.UID && m.isEnding(uid, opened) }):
		return feature.AdmitResult{Wait: "devices of " + short.Resource + " that ended pods held"}
	}
	return refusal(err.Error())
}

// refusal returns the kubelet's refusal for a failed allocation.
func refusal(cause string) feature.AdmitResult {
	return feature.AdmitResult{Reason: Reason, Message: message(cause)}
}

func message(cause string) string {
	return fmt.Sprintf("Allocate failed due to %s, which is unexpected", cause)
}

// goneResource returns a resource that a container of the pod requests and that was forgotten, or "".
// m.mu is held.
func (m *Manager) goneResource(pod *v1.Pod) string {
	if len(m.mu.gone) == 0 {
		return ""
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name, quantity := range c.Resources.Limits {
			if m.mu.gone[string(name)] && !quantity.IsZero() {
				return string(name)
			}
		}
	}
	return ""
}

// isEnding reports whether the devices of a holder are about to be free. Until all sources have
// delivered their pods, and for Options.Patience at most, this includes the pods of an earlier agent
// that no source has listed.
func (m *Manager) isEnding(uid types.UID, opened time.Time) bool {
	_, isDesired := m.host.Desired(uid)
	_, isWorked := m.host.Workers.Info(uid)
	switch {
	case isWorked:
		return !isDesired || m.host.Workers.IsPodTerminationRequested(uid)
	case isDesired: // admitted just now
		return false
	}
	return m.host.HasSourced() || time.Since(opened) < m.opts.Patience
}

// release frees the devices of a pod.
func (m *Manager) release(uid types.UID) {
	m.mu.Lock()
	freed := m.mu.book.Release(uid)
	m.mu.Unlock()
	m.absent.Drop(uid)
	m.admitted.Drop(uid)
	if freed {
		m.save()
		m.host.Reconsider()
	}
}

// housekeep frees the devices of pods that are unknown to the node.
func (m *Manager) housekeep(known func(types.UID) bool) {
	if !m.host.HasSourced() {
		return
	}
	now := time.Now()
	m.mu.Lock()
	holdings := m.mu.book.Holdings()
	m.mu.Unlock()
	for _, h := range slices.CompactFunc(holdings, func(a, b ledger.Holding) bool { return a.Pod == b.Pod }) {
		switch since := m.absent.Get(h.Pod); {
		case known(h.Pod):
			m.absent.Drop(h.Pod)
		case since.IsZero():
			m.absent.Set(h.Pod, now)
		case now.Sub(since) >= absentFor:
			m.log.Info("devices of a pod that is gone are free", zap.String("podUID", string(h.Pod)))
			m.release(h.Pod)
		}
	}
}

// input adds the devices of containers to the pod's status.
func (m *Manager) input(pod *v1.Pod, in *podstatus.Input) {
	in.Devices = func(container string) []v1.ResourceStatus {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.mu.book.Status(pod.UID, container)
	}
}

// startsAnew reports whether a pod of an earlier agent has no sandbox, as after a reboot. m.mu is held.
func (m *Manager) startsAnew(pod *v1.Pod, observed *runtime.PodStatus) bool {
	held := m.mu.book.Of(pod.UID)
	return len(held) > 0 && len(m.mu.book.Pending(pod.UID)) == 0 && !m.began.Get(pod.UID) && runtime.CheckSandbox(pod, observed).Changed
}

// lacksPlugin returns an error while the plug-in of a pod's devices is away: after a reboot, devices
// work only after their plug-in has started. m.mu is held.
func (m *Manager) lacksPlugin(pod *v1.Pod) error {
	for _, h := range m.mu.book.Of(pod.UID) {
		switch {
		case !m.mu.book.IsKnown(h.Resource):
			return errors.New("no healthy devices present; cannot allocate unhealthy devices " + h.Resource) // words of the kubelet
		case m.mu.book.IsAway(h.Resource):
			return errAway
		}
	}
	return nil
}

// around asks the plug-ins for the devices of a pod before its sandbox is made. A pod without a
// reservation, for example a pod of an earlier agent without a checkpoint, is synced in any case:
// extend refuses its containers. A pod of an earlier agent that starts anew waits for its plug-ins.
func (m *Manager) around(ctx context.Context, req *runtime.SyncRequest) (undo func(), err error) {
	pod := req.Pod
	m.mu.Lock()
	isNeeded := m.mu.book.Needs(pod) || len(m.mu.book.Pending(pod.UID)) > 0
	if !isNeeded && len(m.mu.book.Of(pod.UID)) == 0 {
		m.mu.Unlock()
		return nil, nil
	}
	startsAnew := m.startsAnew(pod, req.Status)
	if startsAnew {
		err = m.lacksPlugin(pod)
	}
	if err == nil && isNeeded {
		err = m.mu.book.Reserve(pod)
	}
	m.mu.Unlock()
	if err == nil && isNeeded {
		err = m.allocate(ctx, pod)
	}
	if err == nil {
		m.began.Set(pod.UID, true)
	}
	if err == nil || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !m.admitted.Get(pod.UID) && !startsAnew {
		m.log.Warn("a pod has no devices", feature.PodField(pod), zap.Error(err))
		return nil, nil
	}
	if err == errAway {
		return nil, fmt.Errorf("devices: %w", err)
	}
	text := message(err.Error())
	m.host.TellRefusal(pod, Reason, text)
	m.host.Fail(pod, feature.Failure{Reason: Reason, Message: feature.RefusedPrefix + text})
	return nil, fmt.Errorf("devices: %w", err)
}
