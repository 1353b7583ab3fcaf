// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
)

var podResource = schema.GroupResource{Resource: "pods"}

// api simulates the pods of an API server. It assigns UIDs, checks preconditions, allows only the
// node to delete its pods at once, and keeps pods with finalizers.
type api struct {
	pods  map[string]*v1.Pod // by namespace/name
	calls []string
	uids  int
	// fault, if set, fails calls; before, if set, runs before each.
	fault  func(call string) error
	before func(call string)
}

// namespaced is a namespace of an api and implements mirror.Writer.
type namespaced struct {
	*api
	namespace string
}

func (a *api) in(namespace string) mirror.Writer { return namespaced{api: a, namespace: namespace} }

func (n namespaced) begin(ctx context.Context, verb, name string) (key string, err error) {
	key = n.namespace + "/" + name
	call := verb + " " + key
	n.calls = append(n.calls, call)
	if n.before != nil {
		n.before(call)
	}
	if n.fault != nil {
		if err := n.fault(call); err != nil {
			return key, err
		}
	}
	return key, ctx.Err()
}

// Create returns an empty object with an error, as client-go does.
func (n namespaced) Create(ctx context.Context, p *v1.Pod, _ metav1.CreateOptions) (*v1.Pod, error) {
	key, err := n.begin(ctx, "create", p.Name)
	switch {
	case err != nil:
		return &v1.Pod{}, err
	case n.pods[key] != nil:
		return &v1.Pod{}, apierrors.NewAlreadyExists(podResource, p.Name)
	case p.Namespace != n.namespace || p.ResourceVersion != "" || p.UID != "":
		return &v1.Pod{}, apierrors.NewBadRequest("not a new object of this namespace")
	}
	p = p.DeepCopy()
	n.api.uids++
	p.UID = types.UID(fmt.Sprintf("api-%d", n.api.uids))
	n.pods[key] = p
	return p.DeepCopy(), nil
}

func (n namespaced) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1.Pod, error) {
	key, err := n.begin(ctx, "get", name)
	switch p := n.pods[key]; {
	case err != nil:
		return &v1.Pod{}, err
	case p == nil:
		return &v1.Pod{}, apierrors.NewNotFound(podResource, name)
	default:
		return p.DeepCopy(), nil
	}
}

func (n namespaced) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	key, err := n.begin(ctx, "delete", name)
	p := n.pods[key]
	switch {
	case err != nil:
		return err
	case p == nil:
		return apierrors.NewNotFound(podResource, name)
	case o.Preconditions != nil && *o.Preconditions.UID != p.UID:
		return apierrors.NewConflict(podResource, name, errors.New("the UID in the precondition does not match"))
	}
	if p.DeletionTimestamp == nil {
		p.DeletionTimestamp = new(metav1.Now())
	}
	grace := int64(30)
	if o.GracePeriodSeconds != nil {
		grace = *o.GracePeriodSeconds
	}
	p.DeletionGracePeriodSeconds = &grace
	if grace == 0 && len(p.Finalizers) == 0 {
		delete(n.pods, key)
	}
	return nil
}

func (a *api) taken() []string {
	calls := slices.Clone(a.calls)
	a.calls = nil
	return calls
}

// fixture is a node, its API server, and the static pod "web" of namespace ns.
type fixture struct {
	*testing.T
	api    *api
	node   *v1.Node
	client *mirror.Client
	static *v1.Pod
}

const key = "ns/web-n"

func newFixture(t *testing.T) *fixture {
	f := &fixture{T: t, api: &api{pods: map[string]*v1.Pod{}}, static: static("web-n", "s1", "h1")}
	f.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}}
	client, err := mirror.NewClient(mirror.Config{
		Pods: f.api.in,
		Node: func(context.Context) (*v1.Node, error) {
			if f.node == nil {
				return nil, errNoNode
			}
			return f.node, nil
		},
		Outlived: func(static, shown *v1.Pod) bool {
			return static.Status.Phase == "" && shown.Status.Phase == v1.PodFailed
		},
	})
	require.NoError(t, err)
	f.client = client
	return f
}

var errNoNode = errors.New("no node yet")

// reconcile reconciles with the current mirror pod of the API server.
func (f *fixture) reconcile() (mirror.Outcome, error) {
	return f.client.Reconcile(f.Context(), f.static, f.current())
}

// current returns a copy of the pod in the API, or nil.
func (f *fixture) current() *v1.Pod { return f.api.pods[key].DeepCopy() }

// created reconciles once, and returns the mirror pod.
func (f *fixture) created() *v1.Pod {
	outcome, err := f.client.Reconcile(f.Context(), f.static, nil)
	require.NoError(f, err)
	require.Equal(f, mirror.Created, outcome)
	f.api.taken()
	return f.current()
}

// shown returns the hash in the mirror pod in the API, or "".
func (f *fixture) shown() string {
	if f.current() == nil {
		return ""
	}
	return f.current().Annotations[podconfig.AnnotationMirror]
}

// static returns a static pod of the file source on node n.
func static(name string, uid types.UID, hash string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid, Annotations: map[string]string{
			podconfig.AnnotationSource: podconfig.SourceFile, podconfig.AnnotationHash: hash}},
		Spec: v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "main", Image: "x:1"}}},
	}
}

// mirrorPod returns the mirror pod of a static pod with the name and hash, as sent by the API
// source.
func mirrorPod(name string, uid types.UID, hash string) *v1.Pod {
	p := static(name, uid, hash)
	p.Annotations[podconfig.AnnotationSource] = podconfig.SourceAPI
	p.Annotations[podconfig.AnnotationMirror] = hash
	return p
}

// plain returns a pod of the API server.
func plain(name string, uid types.UID) *v1.Pod {
	p := static(name, uid, "")
	p.Annotations = map[string]string{podconfig.AnnotationSource: podconfig.SourceAPI}
	return p
}
