// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// refreshed is a volume with changing content, as a candidate for Refresh.
type refreshed struct {
	name  v1.UniqueVolumeName
	pod   *v1.Pod
	outer []string
}

// Refresh renews the content of the volumes of live pods for which match returns true, if their
// plugins are Refreshers. It does not wait. Call Refresh when the source of a volume (a ConfigMap,
// a Secret) has changed, so that containers see the change before the next sync of their pod. match
// is called without a lock held and must not write to the pod.
func (m *Manager) Refresh(match func(*v1.Pod, v1.Volume) bool) {
	for _, c := range m.refreshable() {
		if !slices.ContainsFunc(c.pod.Spec.Volumes, func(vol v1.Volume) bool {
			return slices.Contains(c.outer, vol.Name) && match(c.pod, vol)
		}) {
			continue
		}
		m.refresh(c)
	}
}

func (m *Manager) refresh(c refreshed) {
	m.mu.Lock()
	defer m.unlock()
	v, r := m.row(c.name, c.pod.UID)
	if r == nil {
		return // the pod is gone since refreshable
	}
	r.refresh++
	r.failure = r.failure.endBackoff()
	m.dispatch(v)
}

// refreshable returns the volumes with changing content.
func (m *Manager) refreshable() []refreshed {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []refreshed
	for name, v := range m.mu.volumes {
		for _, r := range v.rows {
			if r.desire == DesireMounted && v.refreshes(r.spec) {
				all = append(all, refreshed{name, r.pod, r.outer})
			}
		}
	}
	return all
}
