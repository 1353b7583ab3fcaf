// SPDX-License-Identifier: Apache-2.0

// Package statuses writes pod statuses to an API server with package statusmanager.
package statuses

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Options configure Statuses.
type Options struct {
	// Patcher writes the statuses and deletes terminated pods that have a deletion timestamp.
	// Defaults to nil: no request is sent.
	Patcher statusmanager.Patcher
	// Coalesce returns how long a status may wait for the next. Defaults to waits between init
	// containers.
	Coalesce func(statusmanager.Change) time.Duration
	// Index holds the pods as the API server shows them. Required.
	Index *mirror.Index
	// Requested is called after every request. Defaults to nil.
	Requested func(statusmanager.RequestEvent)
}

// Statuses keeps the API server's pod statuses up to date.
type Statuses struct {
	*statusmanager.Manager
	host  *feature.Host
	index *mirror.Index
}

const (
	// drain is how long the final statuses of stopped pods may take to be written.
	drain = time.Second
	// coalesceInit is how long the status of a step between init containers waits for the next step.
	coalesceInit = 2 * time.Second
	// resync is the time between two looks at the pods of the index, which also reach configUpdated.
	resync = 10 * time.Minute
)

// New returns the Statuses of a host's pods.
func New(h *feature.Host, o Options) (*Statuses, error) {
	if o.Coalesce == nil {
		o.Coalesce = statusmanager.CoalesceInit(coalesceInit)
	}
	manager, err := statusmanager.New(statusmanager.Options{
		Patcher:  o.Patcher,
		Pods:     apiPods{o.Index},
		Drain:    drain,
		Resync:   resync,
		Coalesce: o.Coalesce,
		Safety:   statusmanager.SafetyFunc(func(uid types.UID) bool { return h.Workers.CouldHaveRunningContainers(uid) }),
		Jitter:   h.Jitter,
		Logger:   h.Log,

		OnRequest: o.Requested,
	})
	return &Statuses{Manager: manager, host: h, index: o.Index}, err
}

// Feature returns the functions that Statuses adds to the node.
func (s *Statuses) Feature() feature.Feature {
	return feature.Feature{
		Name: "statuses", ConfigUpdated: s.configUpdated, Published: s.published, Ended: s.ended, Housekeep: s.housekeep, Run: s.Run,
	}
}

// configUpdated passes pods of the API server, including mirror pods, to the status manager.
func (s *Statuses) configUpdated(u podconfig.Update) {
	if u.Op == podconfig.OpRemove {
		return
	}
	for _, pod := range u.Pods {
		if podconfig.IsMirror(pod) || !podconfig.IsStatic(pod) {
			s.Observed(pod)
		}
	}
}

// published passes a status to the status manager. A status that the manager corrects shows a bug
// of keelson or the runtime, so the correction is logged.
func (s *Statuses) published(pod *v1.Pod, status v1.PodStatus) {
	if _, err := s.SetPodStatus(pod, status); err != nil && !errors.Is(err, statusmanager.ErrStopped) {
		s.host.Log.Warn("status corrected by the status manager", feature.PodField(pod), zap.Error(err))
	}
}

func (s *Statuses) ended(pod *v1.Pod) {
	if _, err := s.TerminatePod(pod); err != nil && !errors.Is(err, statusmanager.ErrStopped) {
		s.host.Log.Warn("end of a pod corrected by the status manager", feature.PodField(pod), zap.Error(err))
	}
}

func (s *Statuses) housekeep(known func(types.UID) bool) {
	s.RemoveOrphanedStatuses(func(uid types.UID) bool { return known(uid) || s.index.Translate(uid) != uid })
}

// apiPods returns pods as the API server shows them.
type apiPods struct{ index *mirror.Index }

// Pod implements statusmanager.Pods.
func (p apiPods) Pod(uid types.UID) (*v1.Pod, bool) {
	pod, ok := p.index.Get(uid)
	if ok && podconfig.IsStatic(pod) {
		return nil, false
	}
	return pod, ok
}

// Mirror implements statusmanager.Pods. A mirror pod of another manifest with the same name does
// not count, because it shows other containers.
func (p apiPods) Mirror(static types.UID) (*v1.Pod, bool) {
	pod, ok := p.index.Get(static)
	if !ok {
		return nil, false
	}
	_, shown := p.index.Pair(pod)
	return shown, shown != nil && mirror.IsMirrorOf(shown, pod)
}

// Static implements statusmanager.Pods.
func (p apiPods) Static(mirror types.UID) (types.UID, bool) {
	uid := p.index.Translate(mirror)
	return uid, uid != mirror
}
