// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// want is a volume needed by a pod, with all of the pod's names for the volume.
type want struct {
	name      v1.UniqueVolumeName
	plugin    Plugin
	place     Place
	spec      Spec
	outer     []string // sorted
	deviceDir string
}

// refusal is a volume that cannot be resolved or mounted, with the reason.
type refusal struct {
	outer string
	err   error
}

// resolve returns the volumes used by the pod's containers, and the volumes that cannot be
// resolved. recorded are the specs of volumes that the pod already has, by outer name.
func (m *Manager) resolve(ctx context.Context, pod *v1.Pod, recorded map[string]Spec) ([]*want, []refusal) {
	used, uses, missing := usedVolumes(pod)
	var wants []*want
	var refused []refusal
	for _, name := range missing {
		refused = append(refused, refusal{name, Terminal(fmt.Errorf("the pod has no volume %s", name))})
	}
	places := map[Place]*want{}
	for _, vol := range used {
		w, err := m.identify(ctx, pod, vol, uses[vol.Name], recorded)
		if err != nil {
			refused = append(refused, refusal{vol.Name, err})
			continue
		}
		first, ok := places[w.place]
		switch {
		case !ok:
			places[w.place] = w
			wants = append(wants, w)
		case first.name != w.name || (first.spec.PV == nil) != (w.spec.PV == nil):
			refused = append(refused, refusal{vol.Name, Terminal(fmt.Errorf(
				"volumes %s and %s are different, but would have the same folder", first.outer[0], vol.Name))})
		default: // several volumes of the pod with the same claim
			first.outer = append(first.outer, vol.Name)
			slices.Sort(first.outer)
			first.spec.ReadOnly = first.spec.ReadOnly && w.spec.ReadOnly
		}
	}
	return wants, refused
}

// identify resolves the spec, plugin, name and folder of a volume. A volume that the pod already
// has keeps its recorded spec if Claims fails.
func (m *Manager) identify(ctx context.Context, pod *v1.Pod, vol v1.Volume, u use, recorded map[string]Spec) (*want, error) {
	spec, err := m.specOf(ctx, pod, vol)
	if err != nil {
		known, ok := recorded[vol.Name]
		if !ok {
			return nil, err
		}
		spec = known // a pod keeps its recorded volume, also if the claim cannot be resolved now
	}
	if err := checkMode(spec, u); err != nil {
		return nil, Terminal(err)
	}
	plugin, err := pluginFor(m.options.Plugins, spec)
	if err != nil {
		return nil, err
	}
	if _, ok := plugin.(BlockMapper); spec.Block() && !ok {
		return nil, Terminal(fmt.Errorf("volume %s: plugin %s has no block volumes", vol.Name, plugin.Name()))
	}
	w := &want{
		plugin: plugin, spec: spec, outer: []string{vol.Name},
		place: Place{Root: m.options.Root, PodUID: pod.UID, Plugin: plugin.Name(), Inner: spec.InnerName()},
	}
	if err := w.place.Check(); err != nil {
		return nil, Terminal(fmt.Errorf("volume %s: %w", vol.Name, err))
	}
	if w.name, err = UniqueVolumeName(plugin, pod.UID, spec); err != nil {
		return nil, err
	}
	if w.deviceDir, err = deviceDir(plugin, m.options.Root, spec); err != nil {
		return nil, fmt.Errorf("volume %s: %w", vol.Name, err)
	}
	return w, nil
}

// specOf returns the Spec of vol, from Claims if the volume has a claim.
func (m *Manager) specOf(ctx context.Context, pod *v1.Pod, vol v1.Volume) (Spec, error) {
	if vol.PersistentVolumeClaim == nil && vol.Ephemeral == nil {
		return Spec{Volume: vol.DeepCopy()}, nil
	}
	if m.options.Claims == nil {
		return Spec{}, Terminal(fmt.Errorf("volume %s: this node has no persistent volumes", vol.Name))
	}
	spec, err := m.options.Claims.Resolve(ctx, pod, vol)
	switch {
	case err != nil:
		return Spec{}, fmt.Errorf("volume %s: %w", vol.Name, err)
	case spec.PV == nil:
		return Spec{}, fmt.Errorf("volume %s: its claim has no persistent volume", vol.Name)
	}
	spec.Volume = nil
	return spec, nil
}

func deviceDir(plugin Plugin, root string, spec Spec) (string, error) {
	if d, ok := plugin.(DeviceMounter); ok {
		return d.DeviceDir(root, spec)
	}
	return "", nil
}

// recorded returns the specs of the pod's persistent volumes, by outer name.
func (m *Manager) recorded(uid types.UID) map[string]Spec {
	m.mu.Lock()
	defer m.mu.Unlock()
	specs := map[string]Spec{}
	m.each(uid, func(_ *volume, r *row) {
		if r.spec.PV == nil || r.state == StateNotMounted {
			return
		}
		for _, name := range r.outer {
			specs[name] = r.spec
		}
	})
	return specs
}

// awaited names a volume that a call waits for, and the refresh number that the volume must reach.
type awaited struct {
	name    v1.UniqueVolumeName
	outer   []string
	refresh uint64
}

// desire records the volumes needed by the pod and marks the pod as live. The caller calls PodChanged
// afterwards, which starts the operations. desire returns the volumes to
// wait for, and a refusal for each volume whose folder still belongs to another volume.
func (m *Manager) desire(pod *v1.Pod, wants []*want) ([]awaited, []refusal) {
	now := time.Now()
	m.mu.Lock()
	defer m.unlock()
	entry := m.pod(pod.UID)
	m.mu.epochs++
	entry.epoch = m.mu.epochs
	m.each(pod.UID, func(_ *volume, r *row) { r.desire, r.terminating = DesireKept, false })
	var all []awaited
	var refused []refusal
	for _, w := range wants {
		v, r, err := m.rowFor(w)
		if err != nil {
			refused = append(refused, refusal{w.outer[0], err})
			continue
		}
		r.want(w, pod, now)
		v.endBackoff(r)
		if v.refreshes(r.spec) {
			r.refresh++
		}
		all = append(all, awaited{name: v.name, outer: w.outer, refresh: r.refresh})
	}
	return all, refused
}

// want records the request w in the row.
func (r *row) want(w *want, pod *v1.Pod, now time.Time) {
	r.desire, r.pod, r.spec, r.outer = DesireMounted, pod, w.spec, w.outer
	if r.state == StateMounted || r.requested.IsZero() {
		r.requested = now
	}
}

// endBackoff permits every operation on the volume and its row at once.
func (v *volume) endBackoff(r *row) {
	r.failure, v.failure = r.failure.endBackoff(), v.failure.endBackoff()
}

// rowFor returns the row of w, and creates it if necessary. The lock is held.
func (m *Manager) rowFor(w *want) (*volume, *row, error) {
	_, known := m.row(w.name, w.place.PodUID)
	if known != nil && known.place != w.place {
		return nil, nil, Terminal(fmt.Errorf("%s and %s are the same volume, which has one folder in a pod", known.place.Inner, w.place.Inner))
	}
	r, err := m.displaced(w)
	if err != nil {
		return nil, nil, err
	}
	v := m.volume(w.name, w.plugin, w.spec)
	v.spec, v.staged, v.deviceDir = w.spec, w.deviceDir != "", w.deviceDir
	if attachable := m.isAttachable(w.plugin, w.spec); attachable != v.attachable {
		v.attachable, m.mu.inUseChanged = attachable, true // the resolved spec is more reliable than the reconstructed spec
	}
	if v.size.IsZero() {
		v.size = w.spec.Claimed
	}
	if known != nil {
		return v, known, nil
	}
	if r == nil {
		r = &row{place: w.place}
	}
	m.link(v, r)
	return v, r, nil
}

// displaced removes and returns a row with w's folder under another volume name. Such a row was
// found after a restart without a record, when the volume name was not known. The lock is held.
func (m *Manager) displaced(w *want) (*row, error) {
	var found *row
	var err error
	m.each(w.place.PodUID, func(v *volume, r *row) {
		switch {
		case v.name == w.name || r.place != w.place:
		case r.busy != nil || v.busy != nil:
			err = Transient(errors.New("another volume is about to leave the folder of the volume"))
		case r.state != StateNotMounted && !r.found:
			err = Transient(fmt.Errorf("volume %s still has the folder of the volume", v.name))
		default:
			found = r
			at, _ := v.find(w.place.PodUID)
			v.rows = slices.Delete(v.rows, at, at+1)
			m.unlink(v, w.place.PodUID)
			m.dispatch(v)
		}
	})
	return found, err
}

// volume returns the volume called name, and creates it if necessary. The lock is held.
func (m *Manager) volume(name v1.UniqueVolumeName, plugin Plugin, spec Spec) *volume {
	if v, ok := m.mu.volumes[name]; ok {
		return v
	}
	v := &volume{name: name, plugin: plugin, spec: spec}
	v.attachable = m.isAttachable(plugin, spec)
	m.mu.volumes[name] = v
	m.mu.inUseChanged = m.mu.inUseChanged || v.attachable
	return v
}

// isAttachable reports whether an external attacher must attach the volume before mounting.
func (m *Manager) isAttachable(plugin Plugin, spec Spec) bool {
	a, ok := plugin.(Attacher)
	return ok && m.options.Node != nil && a.Attachable(spec)
}
