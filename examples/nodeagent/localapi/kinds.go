// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// object is an object of the API. Objects are not written after the view has them.
type object interface {
	runtime.Object
	metav1.Object
}

// kind is a resource of the core group.
type kind struct {
	plural, singular, name string
	short, categories      []string
	namespaced             bool
	verbs                  []string
	list                   func() []object // the caller owns the objects' metadata
	columns                []metav1.TableColumnDefinition
	row                    func(o object, now time.Time) []any
	fields                 func(o object) fields.Set
}

func (k *kind) typeMeta() metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: k.name} }

// allKinds returns the resources that the options allow.
func (a *API) allKinds() []*kind {
	read := []string{"get", "list", "watch"}
	a.pods = &kind{
		plural: "pods", singular: "pod", name: "Pod", short: []string{"po"}, categories: []string{"all"}, namespaced: true, verbs: read,
		list: a.listPods, columns: podColumns, row: podRow, fields: podFields,
	}
	if a.Manifests != nil {
		a.pods.verbs = append(a.pods.verbs, "create", "patch", "update")
	}
	if a.Manifests != nil || a.Restarts != nil {
		a.pods.verbs = append(a.pods.verbs, "delete")
	}
	all := []*kind{a.pods, {
		plural: "namespaces", singular: "namespace", name: "Namespace", short: []string{"ns"}, verbs: read,
		list: a.listNamespaces, columns: namespaceColumns, row: namespaceRow, fields: nameFields,
	}}
	if a.Node != nil {
		all = append(all, &kind{
			plural: "nodes", singular: "node", name: "Node", short: []string{"no"}, verbs: read,
			list: a.listNodes, columns: nodeColumns, row: nodeRow, fields: nameFields,
		})
	}
	if a.Events != nil {
		all = append(all, &kind{
			plural: "events", singular: "event", name: "Event", short: []string{"ev"}, namespaced: true, verbs: read,
			list: a.listEvents, columns: eventColumns, row: eventRow, fields: eventFields,
		})
	}
	for _, k := range all {
		list := k.list
		k.list = func() []object {
			objects := list()
			for _, o := range objects {
				o.GetObjectKind().SetGroupVersionKind(v1.SchemeGroupVersion.WithKind(k.name))
			}
			return objects
		}
	}
	return all
}

// known is a pod of the node.
type known struct {
	*v1.Pod         // as the node knows the pod
	shown   *v1.Pod // as clients see the pod
}

// podsByName returns the pods by their short names. While a pod replaces a pod of the same name, the
// result has the newer pod.
func (a *API) podsByName() map[types.NamespacedName]known {
	byName := map[types.NamespacedName]known{}
	var ending map[types.UID]bool
	if a.Ending != nil {
		ending = a.Ending()
	}
	for _, pod := range a.Options.Pods() {
		shown := a.show(pod)
		if shown.DeletionTimestamp == nil && ending[pod.UID] {
			shown.DeletionTimestamp = &shown.CreationTimestamp // the time is not known
			shown.DeletionGracePeriodSeconds = pod.Spec.TerminationGracePeriodSeconds
		}
		key := keyOf(shown)
		if other, ok := byName[key]; !ok || isOlder(other.shown, shown) {
			byName[key] = known{pod, shown}
		}
	}
	return byName
}

// isOlder reports whether a pod is replaced by another pod of its name.
func isOlder(pod, other *v1.Pod) bool {
	if (pod.DeletionTimestamp == nil) != (other.DeletionTimestamp == nil) {
		return pod.DeletionTimestamp != nil
	}
	return pod.CreationTimestamp.Before(&other.CreationTimestamp)
}

func (a *API) listPods() (all []object) {
	for _, pod := range a.podsByName() {
		all = append(all, pod.shown)
	}
	return all
}

// find returns the pod with the name, or nil. The name may be short.
func (a *API) find(namespace, name string) *v1.Pod {
	pods := a.podsByName()
	pod, ok := pods[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		pod = pods[types.NamespacedName{Namespace: namespace, Name: a.short(name)}]
	}
	return pod.Pod
}

// show returns a copy of a pod under its short name.
func (a *API) show(pod *v1.Pod) *v1.Pod {
	shown := *pod
	if podfacts.IsStatic(pod) {
		shown.Name = a.short(pod.Name)
	}
	if shown.CreationTimestamp.IsZero() {
		if seen, err := time.Parse(time.RFC3339Nano, pod.Annotations["kubernetes.io/config.seen"]); err == nil {
			shown.CreationTimestamp = metav1.NewTime(seen)
		} else if pod.Status.StartTime != nil {
			shown.CreationTimestamp = *pod.Status.StartTime
		}
	}
	return &shown
}

func (a *API) listNamespaces() (all []object) {
	names := map[string]bool{v1.NamespaceDefault: true}
	for _, pod := range a.Options.Pods() {
		names[pod.Namespace] = true
	}
	for name := range names {
		all = append(all, &v1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(a.started)},
			Status:     v1.NamespaceStatus{Phase: v1.NamespaceActive},
		})
	}
	return all
}

func (a *API) listNodes() []object {
	if node := a.Node(); node != nil {
		node.UID = cmp.Or(node.UID, types.UID(node.Name))
		return []object{node}
	}
	return nil
}

func (a *API) listEvents() (all []object) {
	for _, e := range a.Events.list() {
		if e.InvolvedObject.Kind == "Pod" {
			e.InvolvedObject.Name = a.short(e.InvolvedObject.Name)
		}
		all = append(all, e)
	}
	return all
}
