// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// Cluster is what the agent tells an API server. Pods come from there by a
// source. Every part may be left out.
type Cluster struct {
	// Patcher writes the pods' statuses, and deletes pods that have ended and are
	// to be deleted. Defaults to none.
	Patcher statusmanager.Patcher
	// Mirrors writes the mirror pods of static pods in one namespace. Defaults to
	// none.
	Mirrors func(namespace string) mirror.Writer
	// Node returns the API server's object of this node, for the mirror pods'
	// owner, and for labels, taints and resources that pods are admitted by.
	// Required with Mirrors.
	Node func(ctx context.Context) (*v1.Node, error)
	// Events receives what Options.Events does. Defaults to nobody.
	Events runtime.EventRecorder
	// Claims finds the persistent volumes of pods. Defaults to none: a pod with a
	// claim is refused.
	Claims volumemanager.Claims
	// Attachments agree with a controller on what is attached. Call
	// Agent.NodeChanged when the node has changed. Defaults to none: volumes are
	// taken to be attached.
	Attachments Attachments
	// Services returns the Services whose variables the containers of a pod get: see
	// runtime.DefaultGeneratorOptions. Defaults to none.
	Services func(ctx context.Context, pod *v1.Pod) ([]*v1.Service, error)
	// Tokens makes tokens of service accounts. Defaults to none.
	Tokens projected.TokenSource
}

func (a *Agent) newCluster() (err error) {
	a.index = mirror.NewIndex()
	if a.mirrors, err = newMirrors(a); err != nil {
		return err
	}
	a.status, err = statusmanager.New(statusmanager.Options{
		Patcher: a.opts.Cluster.Patcher,
		Pods:    apiPods{a.index},
		Drain:   time.Second, // the last words of pods that were stopped
		Safety:  statusmanager.SafetyFunc(func(uid types.UID) bool { return a.workers.CouldHaveRunningContainers(uid) }),
		Jitter:  a.later,
		Logger:  a.log,

		OnRequest: a.opts.Observer.StatusRequested,
	})
	return err
}

// apiPods are the pods as the API server has them.
type apiPods struct{ index *mirror.Index }

// Pod implements statusmanager.Pods.
func (p apiPods) Pod(uid types.UID) (*v1.Pod, bool) {
	pod, ok := p.index.Get(uid)
	if ok && podconfig.IsStatic(pod) {
		return nil, false
	}
	return pod, ok
}

// Mirror implements statusmanager.Pods.
func (p apiPods) Mirror(static types.UID) (*v1.Pod, bool) {
	pod, ok := p.index.Get(static)
	if !ok {
		return nil, false
	}
	_, shown := p.index.Pair(pod)
	return shown, shown != nil
}

// Static implements statusmanager.Pods.
func (p apiPods) Static(mirror types.UID) (types.UID, bool) {
	uid := p.index.Translate(mirror)
	return uid, uid != mirror
}

// learn takes in an update and returns the pods that are to run. Mirror pods are
// nothing but what the API server shows of a static pod.
func (a *Agent) learn(u podconfig.Update) []*v1.Pod {
	all := slices.Clone(u.Pods)
	pods, touched := a.index.Apply(u)
	if u.Op != podconfig.OpRemove {
		for _, pod := range all {
			if podconfig.IsMirror(pod) || !podconfig.IsStatic(pod) {
				a.status.Observed(pod)
			}
		}
	}
	if len(touched) > 0 || len(all) > len(pods) {
		a.mirrors.poke()
	}
	for _, pod := range pods {
		if podconfig.IsStatic(pod) {
			a.mirrors.poke()
			break
		}
	}
	return pods
}

// report hands a status on to the cluster. What the status manager does not
// believe is a bug or a lying runtime, and is said.
func (a *Agent) report(pod *v1.Pod, status v1.PodStatus) {
	_, err := a.status.SetPodStatus(pod, status)
	if err != nil && !errors.Is(err, statusmanager.ErrStopped) {
		a.log.Warn("status not passed on as it is", podField(pod), zap.Error(err))
	}
}

// ended says that nothing of the pod is left to run.
func (a *Agent) ended(pod *v1.Pod) {
	if _, err := a.status.TerminatePod(pod); err != nil && !errors.Is(err, statusmanager.ErrStopped) {
		a.log.Warn("end of the pod not passed on as it is", podField(pod), zap.Error(err))
	}
}

// mirrors keeps the mirror pods of static pods right, beside the pods' own
// work: an API server that is away holds up no pod.
type mirrors struct {
	agent  *Agent
	client *mirror.Client
	on     bool
	wanted chan struct{} // capacity 1
	failed map[string]string
}

// How long a mirror pod that could not be written waits for another try, and how
// long one request may take.
const (
	mirrorPause   = 5 * time.Second
	mirrorTimeout = 10 * time.Second
)

func newMirrors(a *Agent) (*mirrors, error) {
	client, err := mirror.NewClient(mirror.Config{Pods: a.opts.Cluster.Mirrors, Node: a.opts.Cluster.Node})
	return &mirrors{agent: a, client: client, on: a.opts.Cluster.Mirrors != nil, wanted: make(chan struct{}, 1), failed: make(map[string]string)}, err
}

func (m *mirrors) poke() {
	select {
	case m.wanted <- struct{}{}:
	default:
	}
}

func (m *mirrors) run(ctx context.Context) {
	if !m.on {
		return
	}
	retry := time.NewTimer(time.Hour)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wanted:
		case <-retry.C:
		}
		if !m.reconcile(ctx) {
			retry.Reset(mirrorPause)
		}
	}
}

// reconcile looks at every static pod and at what is left of those that are
// gone. It reports whether all is as it should be.
func (m *mirrors) reconcile(ctx context.Context) (right bool) {
	right = true
	tried := make(map[string]bool)
	for static, known := range m.agent.index.Statics() {
		tried[static.Namespace+"/"+static.Name] = true
		if shown, _ := m.agent.index.ByName(static.Namespace, static.Name); shown != static {
			continue // two sources have this name, and there is one mirror
		}
		if !m.try(ctx, static, func(ctx context.Context) error {
			_, err := m.client.Reconcile(ctx, static, known)
			return err
		}) {
			right = false
		}
		if ctx.Err() != nil {
			return true
		}
	}
	if !m.agent.readiness.AllReady() {
		return right
	}
	for orphan := range m.agent.index.Orphans() {
		tried[orphan.Namespace+"/"+orphan.Name] = true
		one := func(yield func(*v1.Pod) bool) { yield(orphan) }
		if !m.try(ctx, orphan, func(ctx context.Context) error { return m.client.DeleteOrphans(ctx, one, m.busy) }) {
			right = false
		}
	}
	maps.DeleteFunc(m.failed, func(name, _ string) bool { return !tried[name] })
	return right
}

// busy: the static pod of that name is still ending, and its last words are the
// mirror's.
func (m *mirrors) busy(orphan *v1.Pod) bool {
	return m.agent.workers.IsPodForMirrorPodTerminatingByFullName(podconfig.FullName(orphan))
}

// try makes one attempt; what fails is logged once, until it fails differently.
func (m *mirrors) try(ctx context.Context, pod *v1.Pod, f func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	err, name := f(ctx), pod.Namespace+"/"+pod.Name
	switch {
	case err == nil:
		delete(m.failed, name)
	case m.failed[name] != err.Error():
		m.failed[name] = err.Error()
		m.agent.log.Warn("mirror pod is not right", podField(pod), zap.Error(err))
	}
	return err == nil
}
