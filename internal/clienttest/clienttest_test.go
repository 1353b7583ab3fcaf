// SPDX-License-Identifier: Apache-2.0

package clienttest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/clienttest"
)

func pod(namespace, name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web", "tier": "one"}}}
}

// names returns the pods that a client lists.
func names(t *testing.T, c *clienttest.Clients, namespace string, o metav1.ListOptions) []string {
	t.Helper()
	list, err := c.CoreV1().Pods(namespace).List(t.Context(), o)
	require.NoError(t, err)
	names := []string{}
	for _, p := range list.Items {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	return names
}

func TestObjectsAreCreatedAndListed(t *testing.T) {
	c := clienttest.New(pod("ns", "a"), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	pods := c.CoreV1().Pods("ns")
	_, err := pods.Create(t.Context(), pod("", "b"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = pods.Create(t.Context(), pod("", "b"), metav1.CreateOptions{})
	require.True(t, apierrors.IsAlreadyExists(err), err)
	_, err = c.CoreV1().Pods("other").Create(t.Context(), pod("", "c"), metav1.CreateOptions{})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"ns/a", "ns/b"}, names(t, c, "ns", metav1.ListOptions{LabelSelector: "app=web"}))
	assert.Empty(t, names(t, c, "ns", metav1.ListOptions{LabelSelector: "app=db"}))
	assert.Len(t, names(t, c, "", metav1.ListOptions{FieldSelector: "spec.nodeName=n"}), 3, "field selectors are ignored")

	_, err = c.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, pods.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	_, err = pods.Get(t.Context(), "a", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), err)
	var asked []string
	for _, a := range c.Actions()[6:] {
		asked = append(asked, a.GetVerb()+" "+a.GetResource().Resource)
	}
	assert.Equal(t, []string{"get csinodes", "delete pods", "get pods"}, asked, "both clients share one list of requests")
}

func TestPatches(t *testing.T) {
	c := clienttest.New(pod("ns", "a"))
	for kind, patch := range map[types.PatchType]string{
		types.MergePatchType:          `{"metadata":{"labels":{"tier":null}},"status":{"phase":"Running"}}`,
		types.StrategicMergePatchType: `{"metadata":{"labels":{"more":"1"}}}`,
	} {
		_, err := c.CoreV1().Pods("ns").Patch(t.Context(), "a", kind, []byte(patch), metav1.PatchOptions{}, "status")
		require.NoError(t, err, kind)
	}
	p, err := c.CoreV1().Pods("ns").Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"app": "web", "more": "1"}, p.Labels, "a patch of the status changes all fields")
	assert.Equal(t, v1.PodRunning, p.Status.Phase)
	assert.Empty(t, p.ManagedFields)
}

// A watch from the version of a list begins with the changes after the list.
func TestWatches(t *testing.T) {
	c := clienttest.New(pod("ns", "a"))
	pods := c.CoreV1().Pods("ns")
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	_, err = pods.Create(t.Context(), pod("ns", "b"), metav1.CreateOptions{})
	require.NoError(t, err)
	w, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	defer w.Stop()
	_, err = pods.Update(t.Context(), pod("ns", "a"), metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, pods.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	require.Len(t, w.ResultChan(), 3)
	for _, want := range []string{"ADDED b", "MODIFIED a", "DELETED b"} {
		e := <-w.ResultChan()
		assert.Equal(t, want, string(e.Type)+" "+e.Object.(*v1.Pod).Name)
	}
}

func TestObjectsThatCannotBeAdded(t *testing.T) {
	pods := clienttest.New(pod("ns", "a"), pod("ns", "a")).CoreV1().Pods("ns")
	_, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
	require.ErrorContains(t, err, "clienttest: add a *v1.Pod: ")
	_, err = pods.Watch(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "already exists")
}
