// SPDX-License-Identifier: Apache-2.0

package podfield_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfield"
)

func TestValue(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "u",
			Labels: map[string]string{"app": "a"}, Annotations: map[string]string{"Example.com/Note": "n"},
		},
		Spec: v1.PodSpec{NodeName: "node", ServiceAccountName: "account"},
	}
	for _, test := range []struct{ name, version, path, want, err string }{
		{name: "name", path: "metadata.name", want: "web"},
		{name: "namespace", version: "v1", path: "metadata.namespace", want: "shop"},
		{name: "uid", path: "metadata.uid", want: "u"},
		{name: "node", path: "spec.nodeName", want: "node"},
		{name: "account", path: "spec.serviceAccountName", want: "account"},
		{name: "label", path: "metadata.labels['app']", want: "a"},
		{name: "missing label", path: "metadata.labels['none']"},
		{name: "annotation with capitals", path: "metadata.annotations['Example.com/Note']", want: "n"},
		{name: "label with a bad key", path: "metadata.labels['a b']", err: `invalid key "a b" of metadata.labels: `},
		{name: "key of another field", path: "spec.nodeSelector['a']", err: `unsupported fieldPath "spec.nodeSelector['…']"`},
		{name: "another version", version: "v2", path: "metadata.name", err: `unsupported apiVersion "v2"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok, err := podfield.Value(pod, &v1.ObjectFieldSelector{APIVersion: test.version, FieldPath: test.path})
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.err == "", ok)
			if test.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, test.err)
			}
		})
	}
	for _, path := range []string{"", "metadata.labels", "status.podIP", "metadata.labels['a", "['a']"} {
		ref := &v1.ObjectFieldSelector{FieldPath: path}
		value, ok, err := podfield.Value(pod, ref)
		assert.Empty(t, value)
		assert.False(t, ok)
		assert.NoError(t, err)
		assert.EqualError(t, podfield.Unsupported(ref), `unsupported fieldPath "`+path+`"`)
	}
}
