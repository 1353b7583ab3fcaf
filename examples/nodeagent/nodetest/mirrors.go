// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Mirror pods of static pods on the API server.

// OpCreatePod is the creation of a mirror pod, for Node.CrashAgentOn.
const OpCreatePod fake.Op = "CreatePod"

// withMirrors gives the holder of a lease a writer for mirror pods.
func (a *api) withMirrors(c *node.Cluster, l *lease) {
	c.Mirrors = func(namespace string) mirror.Writer { return &mirrorWriter{a, l, namespace} }
	c.Node = func(context.Context) (*v1.Node, error) {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.node, UID: types.UID(a.node)}, Spec: v1.NodeSpec{Taints: a.taints}}, nil
	}
}

// mirrorWriter writes the mirror pods of a namespace for the holder of a lease. A creation takes
// effect or fails: no reply is lost.
type mirrorWriter struct {
	api       *api
	lease     *lease
	namespace string
}

// Create implements mirror.Writer.
func (w *mirrorWriter) Create(ctx context.Context, p *v1.Pod, _ metav1.CreateOptions) (*v1.Pod, error) {
	return through(ctx, w.lease, fake.Call{Op: OpCreatePod, Pod: p.Name}, func(ctx context.Context) (*v1.Pod, error) {
		switch _, err := w.api.server.GetPod(ctx, w.ref(p.Name)); {
		case err == nil:
			return nil, apierrors.NewAlreadyExists(v1.Resource("pods"), p.Name)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
		created := p.DeepCopy()
		created.UID, created.Status, created.CreationTimestamp = "", v1.PodStatus{Phase: v1.PodPending}, metav1.Now()
		stored := w.api.server.Create(created)
		w.api.supply.history.mirror(p.Name, MirrorCreated)
		return stored, nil
	})
}

// Get implements mirror.Writer.
func (w *mirrorWriter) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1.Pod, error) {
	return through(ctx, w.lease, fake.Call{Op: OpGetPod, Pod: name}, func(ctx context.Context) (*v1.Pod, error) {
		return w.api.server.GetPod(ctx, w.ref(name))
	})
}

// Delete implements mirror.Writer.
func (w *mirrorWriter) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	ref := w.ref(name)
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		ref.UID = *o.Preconditions.UID
	}
	_, err := through(ctx, w.lease, fake.Call{Op: OpDeletePod, UID: ref.UID, Pod: name}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, w.api.DeletePod(ctx, ref)
	})
	return err
}

func (w *mirrorWriter) ref(name string) statusmanager.PodRef {
	return statusmanager.PodRef{Namespace: w.namespace, Name: name}
}

// realPods returns pods without mirror pods.
func realPods(pods []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), podconfig.IsMirror)
}

// mirrorOf returns the mirror pod of a static pod with any content, or nil.
func (p *player) mirrorOf(name string) *v1.Pod {
	for _, pod := range p.server.Pods() {
		if pod.Name == name && podconfig.IsMirror(pod) {
			return pod
		}
	}
	return nil
}

var errNoMirror = errors.New("it has no mirror pod")

// deleteMirror deletes the mirror pod of a static pod, as a user does.
func (p *player) deleteMirror(name string) error {
	shown := p.mirrorOf(name)
	if shown == nil {
		return errNoMirror
	}
	p.node.history.mirror(name, MirrorDeleted)
	_, err := p.server.Delete(shown.UID)
	return err
}

// evictMirror deletes the mirror pod by force, as a user does.
func (p *player) evictMirror(name string) error {
	shown := p.mirrorOf(name)
	if shown == nil {
		return errNoMirror
	}
	p.node.history.mirror(name, MirrorDeleted)
	p.node.Evict(shown.UID)
	return nil
}

// mirrorSettled is after what time the status of a static pod is in a mirror pod that has replaced another.
const mirrorSettled = 4 * time.Second

// mirrored checks that a wanted static pod has a mirror pod with its content and its status.
func (p *player) mirrored(pod *v1.Pod, status *v1.PodStatus) error {
	if !p.mirrors || !slices.Contains(p.wanted, pod) {
		return nil
	}
	shown := p.mirrorOf(pod.Name)
	switch {
	case shown == nil:
		return errNoMirror
	case shown.DeletionTimestamp != nil:
		return errors.New("its mirror pod was deleted, and is not created again")
	case shown.Annotations[podconfig.AnnotationMirror] != pod.Annotations[podconfig.AnnotationHash]:
		return errors.New("its mirror pod has the content of an earlier manifest")
	}
	if time.Since(shown.CreationTimestamp.Time) < mirrorSettled {
		return nil // requests for the one before were refused, and the next status waits for that
	}
	return heard(pod, shown, status)
}

// orphanedMirrors checks that the static pod of every mirror pod is wanted. Other mirror pods are
// deleted after the end of their pod.
func (p *player) orphanedMirrors() (errs []error) {
	for _, shown := range p.server.Pods() {
		if podconfig.IsMirror(shown) && !slices.ContainsFunc(p.wanted, func(pod *v1.Pod) bool { return pod.Name == shown.Name }) {
			errs = append(errs, fmt.Errorf("static pod %s is not wanted, and its mirror pod is left", shown.Name))
		}
	}
	return errs
}
