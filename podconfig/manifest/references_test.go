// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

func TestNoAPIReferences(t *testing.T) {
	volume := func(source string) string { return "{volumes: [{name: v, " + source + "}]}" }
	tests := []struct{ spec, want string }{
		{"{}", ""},
		{"{serviceAccountName: a}", "serviceaccounts"},
		{"{serviceAccount: a}", "serviceaccounts"},
		{"{imagePullSecrets: [{name: a}]}", "secrets"},
		{"{containers: [{env: [{valueFrom: {secretKeyRef: {key: a}}}]}]}", "secrets"},
		{"{initContainers: [{env: [{valueFrom: {configMapKeyRef: {key: a}}}]}]}", "configmaps"},
		{"{containers: [{envFrom: [{secretRef: {name: a}}]}]}", "secrets"},
		{"{containers: [{envFrom: [{configMapRef: {name: a}}]}]}", "configmaps"},
		{"{containers: [{env: [{valueFrom: {fieldRef: {fieldPath: a}}}, {valueFrom: {resourceFieldRef: {resource: a}}}]}]}", ""},
		{"{resourceClaims: [{name: a}]}", "resourceclaims"},
		{volume("configMap: {name: a}"), "configmaps (via configmap volumes)"},
		{volume("secret: {secretName: a}"), "secrets (via secret volumes)"},
		{volume("csi: {driver: a}"), "csidrivers (via CSI volumes)"},
		{volume("glusterfs: {path: a}"), "endpoints (via glusterFS volumes)"},
		{volume("persistentVolumeClaim: {claimName: a}"), "persistentvolumeclaims"},
		{volume("ephemeral: {}"), "persistentvolumeclaims (via ephemeral volumes)"},
		{volume("azureFile: {secretName: a}"), "secrets (via azureFile volumes)"},
		{volume("projected: {sources: [{downwardAPI: {}}]}"), ""},
		{volume("projected: {sources: [{configMap: {name: a}}]}"), "configmaps (via projected volumes)"},
		{volume("projected: {sources: [{secret: {name: a}}]}"), "secrets (via projected volumes)"},
		{volume("projected: {sources: [{serviceAccountToken: {path: a}}]}"), "serviceaccounts (via projected volumes)"},
		{volume("projected: {sources: [{clusterTrustBundle: {path: a}}]}"), "clustertrustbundles"},
		{volume("projected: {sources: [{podCertificate: {}}]}"), "podcertificates"},
		{volume("projected: {sources: [{}]}"), "objects unknown to this node (via an unknown projected source)"},
		{"{volumes: [{name: v}]}", ""},
	}
	for _, kind := range []string{"downwardAPI", "emptyDir", "hostPath", "image", "nfs", "fc", "gitRepo", "awsElasticBlockStore", "azureDisk",
		"flocker", "gcePersistentDisk", "photonPersistentDisk", "portworxVolume", "quobyte", "vsphereVolume"} {
		tests = append(tests, struct{ spec, want string }{volume(kind + ": {}"), ""})
	}
	for _, kind := range []string{"cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"} {
		tests = append(tests, struct{ spec, want string }{volume(kind + ": {}"), ""},
			struct{ spec, want string }{volume(kind + ": {secretRef: {name: a}}"), "secrets"})
	}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			pod := &v1.Pod{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(tt.spec), &pod.Spec))
			err := manifest.NoAPIReferences(pod)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, "static pods may not reference "+tt.want)
			ref, ok := errors.AsType[*manifest.ReferenceError](err)
			require.True(t, ok)
			assert.Equal(t, tt.want, ref.Resource)
		})
	}
}

// A new kind of volume in the API must be reviewed before static pods may use it.
func TestEveryKindOfVolumeIsKnown(t *testing.T) {
	for f := range reflect.TypeFor[v1.VolumeSource]().Fields() {
		pod := &v1.Pod{Spec: v1.PodSpec{Volumes: make([]v1.Volume, 1)}}
		source := reflect.ValueOf(&pod.Spec.Volumes[0].VolumeSource).Elem()
		source.FieldByIndex(f.Index).Set(reflect.New(f.Type.Elem()))
		if err := manifest.NoAPIReferences(pod); err != nil {
			assert.NotContains(t, err.Error(), "unknown", f.Name)
		}
	}
}

// Kubernetes 103587: static pods with references to API objects were accepted and failed later in
// many ways.
func TestUpstream103587StaticPodReferencesAPIObjects(t *testing.T) {
	_, err := strict().Pod([]byte(edited(t, "  containers:", "  volumes: [{name: v, secret: {secretName: s}}]\n  containers:")), origin)
	assert.EqualError(t, err, "6:13: spec.volumes[0]: static pods may not reference secrets (via secret volumes)")
}
