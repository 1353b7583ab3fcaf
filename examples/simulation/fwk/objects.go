// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// connect makes the client set and the informers.
func (s *Scheduler) connect(objects []apiruntime.Object) error {
	objects = slices.Clone(objects)
	if !slices.ContainsFunc(objects, func(o apiruntime.Object) bool {
		namespace, ok := o.(*v1.Namespace)
		return ok && namespace.Name == metav1.NamespaceDefault
	}) {
		objects = append(objects, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: metav1.NamespaceDefault, Labels: map[string]string{v1.LabelMetadataName: metav1.NamespaceDefault},
		}})
	}
	client := fake.NewClientset(objects...)
	client.PrependReactor("*", "*", s.react)
	s.client = client
	s.factory = informers.NewSharedInformerFactory(client, 0)
	s.view.pods = s.factory.Core().V1().Pods().Informer().GetIndexer()
	s.view.nodes = s.factory.Core().V1().Nodes().Informer().GetIndexer()
	for i, object := range objects {
		if err := s.store(object); err != nil {
			return fmt.Errorf("fwk: Options.Objects[%d]: %w", i, err)
		}
	}
	return nil
}

// store adds an object to its informer.
func (s *Scheduler) store(object apiruntime.Object) error {
	switch object.(type) {
	case *v1.Pod, *v1.Node:
		return errors.New("pods and nodes come from the simulation")
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	informer, err := s.factory.ForResource(resource)
	if err != nil {
		return err
	}
	return informer.Informer().GetIndexer().Add(object)
}

// react answers the requests of the client set that are about pods and nodes, and those that write.
func (s *Scheduler) react(action clienttesting.Action) (bool, apiruntime.Object, error) {
	resource, verb := action.GetResource().Resource, action.GetVerb()
	if sub := action.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	switch verb + " " + resource {
	case "get pods":
		object, err := s.placedPod(action.(clienttesting.GetAction))
		return true, object, err
	case "list pods":
		list := &v1.PodList{}
		for _, object := range s.view.pods.List() {
			list.Items = append(list.Items, *object.(*v1.Pod))
		}
		return true, list, nil
	case "get nodes":
		object, err := s.nodeOf(action.(clienttesting.GetAction).GetName())
		return true, object, err
	case "list nodes":
		list := &v1.NodeList{}
		for _, info := range s.view.infos {
			list.Items = append(list.Items, *info.Node())
		}
		return true, list, nil
	case "create events":
		return true, action.(clienttesting.CreateAction).GetObject(), nil
	case "patch pods/status":
		return true, &v1.Pod{}, nil
	case "delete pods":
		return true, nil, s.evict(action.(clienttesting.DeleteAction))
	}
	if verb == "get" || verb == "list" {
		return false, nil, nil // Options.Objects
	}
	return true, nil, s.refuse("ClientSet: " + verb + " " + resource)
}

func (s *Scheduler) nodeOf(name string) (apiruntime.Object, error) {
	for _, info := range s.view.infos {
		if info.Node().Name == name {
			return info.Node(), nil
		}
	}
	return nil, apierrors.NewNotFound(v1.Resource("nodes"), name)
}

// placed returns the pod of a request.
func (s *Scheduler) placed(namespace, name string) (*sim.Pod, *v1.Pod, error) {
	for p, info := range s.view.placed {
		if info.pod.Name == name && info.pod.Namespace == namespace {
			return p, info.pod, nil
		}
	}
	return nil, nil, apierrors.NewNotFound(v1.Resource("pods"), name)
}

func (s *Scheduler) placedPod(a clienttesting.GetAction) (apiruntime.Object, error) {
	_, pod, err := s.placed(a.GetNamespace(), a.GetName())
	if err != nil {
		return nil, err
	}
	return pod, nil
}

// evict makes a pod a victim.
func (s *Scheduler) evict(a clienttesting.DeleteAction) error {
	if !s.posting {
		return s.refuse("ClientSet: delete pods, outside of PostFilter")
	}
	p, _, err := s.placed(a.GetNamespace(), a.GetName())
	if err == nil {
		s.evicted = append(s.evicted, p)
	}
	return err
}
