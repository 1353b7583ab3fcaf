// SPDX-License-Identifier: Apache-2.0

// Package clienttest has client-go's fake typed clients of the API groups that tests of this module
// use. client-go's own fake clientset does the same for all API groups, and is not imported because
// a test with it compiles 150 packages more.
package clienttest

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	fakecorev1 "k8s.io/client-go/kubernetes/typed/core/v1/fake"
	storagev1 "k8s.io/client-go/kubernetes/typed/storage/v1"
	fakestoragev1 "k8s.io/client-go/kubernetes/typed/storage/v1/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Clients are fake typed clients that share their objects, in memory. The embedded Fake has the
// requests so far, and takes reactors that answer in place of the objects. Reactors are added before
// the first request or between two requests.
//
// As with client-go's fake clientset, objects are stored as they are sent, without defaults and
// validation. Lists and watches ignore field selectors, and have no bookmarks. A patch or an update of
// a subresource changes all fields. Other than with NewClientset, objects get no managed fields.
type Clients struct {
	clienttesting.Fake
	objects clienttesting.ObjectTracker
}

// New returns Clients with the given objects. If two objects have the same kind, namespace and name,
// or the kind of an object is unknown, all requests fail with that error.
func New(objects ...runtime.Object) *Clients {
	c := &Clients{objects: clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())}
	for _, o := range objects {
		if err := c.objects.Add(o); err != nil {
			err = fmt.Errorf("clienttest: add a %T: %w", o, err)
			c.AddReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
			c.AddWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) { return true, nil, err })
		}
	}
	c.AddReactor("*", "*", clienttesting.ObjectReaction(c.objects))
	c.AddWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		var o metav1.ListOptions // the version of a list: the watch begins with what happened since
		if w, ok := a.(clienttesting.WatchActionImpl); ok {
			o = w.ListOptions
		}
		w, err := c.objects.Watch(a.GetResource(), a.GetNamespace(), o)
		return true, w, err
	})
	return c
}

// CoreV1 returns the client of Pods, Nodes, Services and other objects of the core group.
func (c *Clients) CoreV1() corev1.CoreV1Interface { return &fakecorev1.FakeCoreV1{Fake: &c.Fake} }

// StorageV1 returns the client of CSINodes, CSIDrivers, VolumeAttachments and others of their group.
func (c *Clients) StorageV1() storagev1.StorageV1Interface {
	return &fakestoragev1.FakeStorageV1{Fake: &c.Fake}
}

// Tracker returns the objects, for reactors: they must not use the clients.
func (c *Clients) Tracker() clienttesting.ObjectTracker { return c.objects }
