// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// The kubelet does not lower-case spec.nodeName and then validates it, so that with a node name
// such as "Edge-17" every static pod fails.
func TestUpstreamMixedCaseNodeNameFailsEveryStaticPod(t *testing.T) {
	pod := decode(t, &manifest.Decoder{NodeName: "Edge-17"}, web)
	assert.Equal(t, "web-edge-17", pod.Name)
	assert.Equal(t, "Edge-17", pod.Spec.NodeName)
}

// The kubelet keeps config.mirror of a manifest; the static pod then counts as a mirror pod.
func TestUpstreamMirrorAnnotationInManifestMakesMirrorPod(t *testing.T) {
	var warnings []string
	d := strict()
	d.Warn = func(_ manifest.Origin, w string) { warnings = append(warnings, w) }
	pod := decode(t, d, edited(t, "name: web", `name: web
  annotations:
    keep: this
    kubernetes.io/config.mirror: "1"
    kubernetes.io/config.hash: "2"
    kubernetes.io/config.seen: "3"
    kubernetes.io/config.source: api`))
	assert.False(t, podconfig.IsMirror(pod))
	assert.Equal(t, map[string]string{"keep": "this", podconfig.AnnotationHash: string(pod.UID)}, pod.Annotations)
	assert.Len(t, warnings, 4)
	assert.Contains(t, warnings, "7:5: metadata.annotations[kubernetes.io/config.mirror]: reserved annotation removed")
}

// The kubelet reads only the first YAML document and ignores the rest.
func TestUpstreamLaterDocumentsAreSilentlyIgnored(t *testing.T) {
	_, err := strict().Pod([]byte(web+"---\nkind: Pod\n"), origin)
	assert.ErrorIs(t, err, manifest.ErrDocuments)
	_, err = (&manifest.Decoder{NodeName: "n"}).Pod([]byte(web+"---\nbroken: ["), origin)
	assert.Error(t, err)
}

// The kubelet silently accepts unknown fields and duplicate keys.
func TestUpstreamUnknownFieldsAndDuplicateKeysAreSilentlyAccepted(t *testing.T) {
	for _, text := range []string{edited(t, "image:", "imag: x\n    image:"), edited(t, "image:", "image: x\n    image:")} {
		_, err := strict().Pod([]byte(text), origin)
		assert.Error(t, err)
		warned := 0
		decode(t, &manifest.Decoder{NodeName: "n", Warn: func(manifest.Origin, string) { warned++ }}, text)
		assert.Equal(t, 1, warned)
	}
}

// A manifest from a dumped pod must not be killed because of its deletionTimestamp. Its edits must
// be noticed even though its resourceVersion never changes.
func TestManifestOfADumpedPodIsACleanPod(t *testing.T) {
	pod := decode(t, strict(), edited(t, "name: web", `name: web
  generateName: web-
  creationTimestamp: "2024-01-01T00:00:00Z"
  deletionTimestamp: "2024-01-01T00:00:00Z"
  deletionGracePeriodSeconds: 30
  generation: 3
  resourceVersion: "77"
  selfLink: /api
  managedFields:
  - fieldsV1: {"f:spec": {}}`)+"status:\n  phase: Failed\n  containerStatuses: [{name: main, restartCount: 7}]\n")
	assert.Nil(t, pod.DeletionTimestamp)
	assert.Nil(t, pod.DeletionGracePeriodSeconds)
	assert.Empty(t, pod.ResourceVersion)
	assert.Empty(t, pod.GenerateName)
	assert.Zero(t, pod.Generation)
	assert.True(t, pod.CreationTimestamp.IsZero())
	assert.Equal(t, v1.PodStatus{Phase: v1.PodPending}, pod.Status)
}

func TestTolerationIsForFilesOnly(t *testing.T) {
	want := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	limited := edited(t, "  containers:", "  tolerations:\n  - {operator: Exists, effect: NoExecute, tolerationSeconds: 5}\n"+
		"  - {key: a, operator: Exists}\n  containers:")
	assert.Equal(t, []v1.Toleration{want}, decode(t, strict(), web).Spec.Tolerations)
	assert.Equal(t, []v1.Toleration{want, {Key: "a", Operator: v1.TolerationOpExists}},
		decode(t, strict(), limited).Spec.Tolerations, "an equal one is replaced")
	pod, err := strict().Pod([]byte(web), manifest.Origin{Kind: manifest.OriginURL, Location: "http://localhost/pod"})
	require.NoError(t, err)
	assert.Empty(t, pod.Spec.Tolerations)
}

func TestSeamsReplaceTheBuiltins(t *testing.T) {
	d := strict()
	var order []string
	d.Default = func(p *v1.Pod) {
		assert.Equal(t, "web-node-1", p.Name)
		assert.NotEmpty(t, p.UID)
		order = append(order, "default")
	}
	d.Policy = func(*v1.Pod) error { order = append(order, "policy"); return nil }
	_, err := d.Pod([]byte(web), origin)
	require.ErrorContains(t, err, "spec.restartPolicy: Required value", "nothing was defaulted")
	assert.Equal(t, []string{"default"}, order)
	d.Default = nil
	_, err = d.Pod([]byte(edited(t, "  containers:", "  serviceAccountName: a\n  containers:")), origin)
	require.NoError(t, err)
	assert.Equal(t, []string{"default", "policy"}, order)
}
