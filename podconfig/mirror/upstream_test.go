// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/mirror"
)

// Each test in this file shows the absence of a fault of kubelet 1.36.3.

// In the kubelet the removal of an old UID also removes the name from the new pod with the same
// name.
func TestUpstreamStaleRemovalLosesTheNewPodOfThatName(t *testing.T) {
	for _, side := range []func(name string, uid types.UID, hash string) *v1.Pod{static, mirrorPod} {
		x := mirror.NewIndex()
		stale, fresh := side("a", "1", "h1"), side("a", "2", "h2")
		x.Apply(podconfig.Update{Op: podconfig.OpAdd, Pods: []*v1.Pod{stale}})
		x.Apply(podconfig.Update{Op: podconfig.OpAdd, Pods: []*v1.Pod{fresh}})
		x.Apply(podconfig.Update{Op: podconfig.OpRemove, Pods: []*v1.Pod{stale}})
		pod, m := x.Pair(fresh)
		require.True(t, pod == fresh || m == fresh)
		if !podconfig.IsMirror(fresh) {
			p, ok := x.ByName("ns", "a")
			require.True(t, ok)
			require.Same(t, fresh, p)
			continue
		}
		_, m = x.Pair(static("a", "s", "h2"))
		require.Same(t, fresh, m)
	}
}

// In the kubelet the translation of a removed static pod stays until its mirror pod is removed.
func TestUpstreamTranslationOutlivesTheStaticPod(t *testing.T) {
	x := mirror.NewIndex()
	s, m := static("a", "s", "h"), mirrorPod("a", "m", "h")
	x.Put(m)
	x.Put(s)
	require.Equal(t, types.UID("s"), x.Translate("m"))
	x.Remove("s")
	require.Equal(t, types.UID("m"), x.Translate("m"))
	_, staticOf := x.Translations()
	require.Empty(t, staticOf)
	x.Put(static("a", "s2", "h2"))
	require.Equal(t, types.UID("s2"), x.Translate("m"))
}

// The kubelet intends to accept an existing mirror pod, but looks for it in the empty object
// returned with the error.
func TestUpstreamAlreadyExistsIsAnError(t *testing.T) {
	f := newFixture(t)
	before := f.created()
	outcome, err := f.client.Reconcile(t.Context(), f.static, nil)
	require.NoError(t, err)
	require.Equal(t, mirror.Kept, outcome)
	require.Equal(t, before, f.current())
}

// The kubelet logs any error of a deletion and treats it as "not deleted".
func TestUpstreamErrorOfADeletionIsSwallowed(t *testing.T) {
	f := newFixture(t)
	f.created()
	failure := apierrors.NewInternalError(errors.New("etcd"))
	f.api.fault = func(string) error { return failure }
	done, err := f.client.Delete(t.Context(), "web-n_ns", nil)
	require.ErrorIs(t, err, failure)
	require.False(t, done)
}

// The kubelet deletes orphans by name alone, and so deletes a new pod with the same name.
func TestUpstreamOrphanIsDeletedByName(t *testing.T) {
	f := newFixture(t)
	x := mirror.NewIndex()
	x.Put(f.created())
	f.api.pods[key].UID = "recreated"
	require.NoError(t, f.client.DeleteOrphans(t.Context(), x.Orphans(), nil))
	require.NotNil(t, f.current())
}

// #29845: a deleted mirror pod of a terminated static pod never returns, because the kubelet
// creates mirror pods only in syncs of the pod.
func TestUpstream29845MirrorOfAnEndedPodComesBack(t *testing.T) {
	f := newFixture(t)
	f.static.Status.Phase = v1.PodSucceeded
	x := mirror.NewIndex()
	x.Put(f.static)
	m := f.created()
	x.Put(m)
	delete(f.api.pods, key) // by a user
	_, touched := x.Apply(podconfig.Update{Op: podconfig.OpRemove, Source: podconfig.SourceAPI, Pods: []*v1.Pod{m}})
	require.Equal(t, []*v1.Pod{f.static}, touched)
	pod, known := x.Pair(touched[0])
	outcome, err := f.client.Reconcile(t.Context(), pod, known)
	require.NoError(t, err)
	require.Equal(t, mirror.Created, outcome)
	require.NotNil(t, f.current())
}

// #103374: with an explicit UID the kubelet's hash equals the UID, so that the mirror pod is never
// refreshed.
func TestUpstream103374EditOfAPodWithAnExplicitUIDRefreshesItsMirror(t *testing.T) {
	f := newFixture(t)
	decode := func(image string) *v1.Pod {
		text := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"ns","uid":"mine"},"spec":{"containers":[{"name":"main","image":"` + image + `"}]}}`
		p, err := (&manifest.Decoder{NodeName: "n"}).Pod([]byte(text), manifest.Origin{Kind: manifest.OriginFile, Location: "/web"})
		require.NoError(t, err)
		p.Annotations[podconfig.AnnotationSource] = podconfig.SourceFile
		return p
	}
	f.static = decode("x:1")
	f.created()
	f.static = decode("x:2")
	outcome, err := f.reconcile()
	require.NoError(t, err)
	require.Equal(t, mirror.Replaced, outcome)
	require.Equal(t, "x:2", f.current().Spec.Containers[0].Image)
}

// #126870: each mirror pod was delayed until the sync of its pod. Here all mirror pods can be
// created as soon as the node is known.
func TestUpstream126870MirrorsAreMadeAsSoonAsThereIsANode(t *testing.T) {
	f := newFixture(t)
	f.node = nil
	x := mirror.NewIndex()
	for _, name := range []string{"a", "b", "c"} {
		x.Put(static(name, types.UID(name), "h"))
	}
	x.Put(plain("p", "p"))
	all := func() (errs []error) {
		for s, m := range x.Statics() {
			_, err := f.client.Reconcile(t.Context(), s, m)
			errs = append(errs, err)
		}
		return errs
	}
	for _, err := range all() {
		require.ErrorIs(t, err, errNoNode)
	}
	f.node = newFixture(t).node
	require.Equal(t, make([]error, 3), all())
	require.Equal(t, []string{"create ns/a", "create ns/b", "create ns/c"}, slices.DeleteFunc(f.api.taken(), func(c string) bool { return c[0] != 'c' }))
}
