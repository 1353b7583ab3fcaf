// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

func TestContentUID(t *testing.T) {
	pod := decode(t, strict(), web)
	assert.Equal(t, string(pod.UID), pod.Annotations[podconfig.AnnotationHash])
	assert.Equal(t, types.UID("89bbacff959210415895a7df61a7a611"), pod.UID, "pods restart when this changes")

	same := map[string]string{
		"comments and order": "kind: Pod # c\nspec:\n  containers:\n  - image: localhost/web:1\n    name: main\n" +
			"metadata: {name: web}\napiVersion: v1\n",
		"null is absent":        edited(t, "image:", "env:\n    image:"),
		"status":                web + "status: {phase: Running, podIP: 10.0.0.1}\n",
		"a server's metadata":   edited(t, "name: web", "name: web\n  resourceVersion: '7'\n  creationTimestamp: null\n  generation: 4"),
		"reserved annotations":  edited(t, "name: web", "name: web\n  annotations: {kubernetes.io/config.hash: abc}"),
		"unused anchors":        edited(t, "name: web", "name: &n web"),
		"quotes":                edited(t, "name: web", `name: "web"`),
		"managed fields and so": edited(t, "name: web", "name: web\n  managedFields: [{fieldsV1: {a: b}}]\n  selfLink: /x"),
	}
	for name, text := range same {
		assert.Equal(t, pod.UID, decode(t, strict(), text).UID, name)
	}
	different := map[string]string{
		"image": edited(t, "web:1", "web:2"), "label": edited(t, "name: web", "name: web\n  labels: {a: b}"),
		"a default spelled out": edited(t, "  containers:", "  restartPolicy: Always\n  containers:"),
	}
	for name, text := range different {
		assert.NotEqual(t, pod.UID, decode(t, strict(), text).UID, name)
	}
}

func TestUIDDependsOnNodeAndOrigin(t *testing.T) {
	seen := map[types.UID]bool{}
	for _, node := range []types.NodeName{"a", "b"} {
		for _, o := range []manifest.Origin{{Kind: "file", Location: "/x"}, {Kind: "file", Location: "/y"}, {Kind: "url", Location: "/x"}} {
			for _, uid := range []func(manifest.Manifest) types.UID{nil, manifest.PathUID} {
				pod, err := (&manifest.Decoder{NodeName: node, UID: uid}).Pod([]byte(web), o)
				require.NoError(t, err)
				assert.False(t, seen[pod.UID])
				seen[pod.UID] = true
			}
		}
	}
	assert.Len(t, seen, 12)
}

func TestPathUIDSurvivesEditsButHashDoesNot(t *testing.T) {
	d := strict()
	d.UID = manifest.PathUID
	a, b := decode(t, d, web), decode(t, d, edited(t, "web:1", "web:2"))
	assert.Equal(t, a.UID, b.UID)
	assert.NotEqual(t, a.Annotations[podconfig.AnnotationHash], b.Annotations[podconfig.AnnotationHash])
	assert.NotEqual(t, a.UID, decode(t, d, edited(t, "name: web", "name: other")).UID, "a pod's name never changes")
}

// Kubernetes 103374: with an explicit uid the hash was the uid, so that an edit never refreshed the
// mirror pod.
func TestUpstream103374HashOfPodWithExplicitUIDFollowsContent(t *testing.T) {
	a := decode(t, strict(), edited(t, "name: web", "name: web\n  uid: 2f3a"))
	b := decode(t, strict(), edited(t, "name: web", "name: web\n  uid: 2f3a", "web:1", "web:2"))
	assert.Equal(t, types.UID("2f3a"), a.UID)
	assert.Equal(t, a.UID, b.UID)
	assert.NotEqual(t, a.Annotations[podconfig.AnnotationHash], b.Annotations[podconfig.AnnotationHash])
}

func TestCustomUID(t *testing.T) {
	var got manifest.Manifest
	d := strict()
	d.UID = func(m manifest.Manifest) types.UID { got = m; return "mine" }
	assert.Equal(t, types.UID("mine"), decode(t, d, web).UID)
	assert.JSONEq(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},
		"spec":{"containers":[{"image":"localhost/web:1","name":"main"}]}}`, string(got.Canonical))
	assert.Equal(t, manifest.Manifest{Canonical: got.Canonical, Namespace: "default", Name: "web-node-1",
		NodeName: "node-1", Origin: origin}, got)

	for _, bad := range []types.UID{"", "../x", "a/b", ".", "a b", "-x"} {
		d.UID = func(manifest.Manifest) types.UID { return bad }
		_, err := d.Pod([]byte(web), origin)
		assert.ErrorContains(t, err, "metadata.uid", string(bad))
	}
}
