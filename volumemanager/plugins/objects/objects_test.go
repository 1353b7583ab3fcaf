// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
)

var (
	_ configmap.Source = (*objects.Store)(nil)
	_ secret.Source    = (*objects.Store)(nil)
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

func TestChangedIsToldOfChangesOnly(t *testing.T) {
	var told []objects.Ref
	s, err := objects.NewStore(objects.Options{Changed: func(r objects.Ref) { told = append(told, r) }})
	require.NoError(t, err)
	changes := func(n int, do func()) {
		t.Helper()
		told = nil
		do()
		require.Len(t, told, n)
	}
	cm := func(text string) {
		s.SetConfigMap(&v1.ConfigMap{ObjectMeta: meta("a"), Data: map[string]string{"k": text}})
	}
	changes(1, func() { cm("1") })
	assert.Equal(t, objects.Ref{Kind: objects.ConfigMap, Namespace: "ns", Name: "a"}, told[0])
	changes(0, func() { cm("1") })
	changes(1, func() { cm("2") })
	changes(1, func() {
		s.SetConfigMap(&v1.ConfigMap{ObjectMeta: meta("a"), Data: map[string]string{"k": "2"}, BinaryData: map[string][]byte{"b": {1}}})
	})
	sec := func(text string) {
		s.SetSecret(&v1.Secret{ObjectMeta: meta("a"), StringData: map[string]string{"k": text}})
	}
	changes(1, func() { sec("1") })
	changes(0, func() { s.SetSecret(&v1.Secret{ObjectMeta: meta("a"), Data: map[string][]byte{"k": []byte("1")}}) })
	changes(1, func() { sec("2") })
	gone := objects.Ref{Kind: objects.Secret, Namespace: "ns", Name: "a"}
	changes(1, func() { s.Delete(gone) })
	changes(0, func() { s.Delete(gone) })
	_, err = s.ConfigMap(t.Context(), "ns", "a")
	require.NoError(t, err, "another kind of the same name")
	_, err = s.Secret(t.Context(), "ns", "a")
	assert.True(t, apierrors.IsNotFound(err))
	_, err = s.ConfigMap(t.Context(), "other", "a")
	assert.True(t, apierrors.IsNotFound(err))
}

func TestChangedMayAskTheStore(t *testing.T) {
	var s *objects.Store
	var seen string
	s, err := objects.NewStore(objects.Options{Changed: func(r objects.Ref) {
		cm, err := s.ConfigMap(t.Context(), r.Namespace, r.Name)
		assert.NoError(t, err)
		seen = cm.Data["k"]
	}})
	require.NoError(t, err)
	s.SetConfigMap(&v1.ConfigMap{ObjectMeta: meta("a"), Data: map[string]string{"k": "1"}})
	assert.Equal(t, "1", seen)
}

func TestUsedBy(t *testing.T) {
	cm, sec := objects.Ref{Kind: objects.ConfigMap, Namespace: "ns", Name: "x"}, objects.Ref{Kind: objects.Secret, Namespace: "ns", Name: "x"}
	ref := v1.LocalObjectReference{Name: "x"}
	for _, tc := range []struct {
		name    string
		source  v1.VolumeSource
		cm, sec bool
	}{
		{"configMap", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ref}}, true, false},
		{"secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "x"}}, false, true},
		{"another", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "y"}}, false, false},
		{"projected", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{}, {ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "y"}}}, {Secret: &v1.SecretProjection{LocalObjectReference: ref}},
		}}}, false, true},
		{"emptyDir", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			volume := v1.Volume{VolumeSource: tc.source}
			assert.Equal(t, tc.cm, cm.UsedBy(&v1.Pod{ObjectMeta: meta("p")}, volume))
			assert.Equal(t, tc.sec, sec.UsedBy(&v1.Pod{ObjectMeta: meta("p")}, volume))
			assert.False(t, cm.UsedBy(&v1.Pod{}, volume), "another namespace")
		})
	}
}

func Example() {
	store, err := objects.NewStore(objects.Options{Changed: func(r objects.Ref) {
		fmt.Println(r.Kind, r.Namespace, r.Name) // manager.Refresh(r.UsedBy)
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		store.SetConfigMap(&v1.ConfigMap{ObjectMeta: meta("config"), Data: map[string]string{"k": "v"}})
	}
	// Output: ConfigMap ns config
}
