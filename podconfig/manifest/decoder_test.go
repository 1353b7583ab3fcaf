// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

const web = `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: localhost/web:1
`

var origin = manifest.Origin{Kind: manifest.OriginFile, Location: "/etc/pods/web.yaml"}

func strict() *manifest.Decoder { return &manifest.Decoder{NodeName: "node-1", Strict: true} }

func decode(t *testing.T, d *manifest.Decoder, text string) *v1.Pod {
	t.Helper()
	pod, err := d.Pod([]byte(text), origin)
	require.NoError(t, err)
	return pod
}

// edited returns web with replacements, each of which must apply.
func edited(t *testing.T, oldNew ...string) string {
	t.Helper()
	text := web
	for i := 0; i < len(oldNew); i += 2 {
		require.Contains(t, text, oldNew[i])
		text = strings.Replace(text, oldNew[i], oldNew[i+1], 1)
	}
	return text
}

func TestPodOfYAMLAndJSON(t *testing.T) {
	fromYAML := decode(t, strict(), web)
	fromJSON := decode(t, strict(), `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},
		"spec":{"containers":[{"image":"localhost/web:1","name":"main"}]}}`)
	fromFlow := decode(t, strict(), `{kind: Pod, apiVersion: v1, metadata: {name: web}, # a comment
		spec: {containers: [{image: "localhost/web:1", name: main,}]}}`)
	assert.Equal(t, fromYAML, fromJSON, "the notation does not matter, not even to the UID")
	assert.Equal(t, fromYAML, fromFlow)
	assert.Equal(t, "web-node-1", fromYAML.Name)
	assert.Equal(t, "default", fromYAML.Namespace)
	assert.Equal(t, "node-1", fromYAML.Spec.NodeName)
	assert.Equal(t, v1.PodPending, fromYAML.Status.Phase)
	assert.Len(t, fromYAML.UID, 32)
}

func TestBadInputIsOneClearLine(t *testing.T) {
	tests := []struct {
		name, text, want string
		is               error
	}{
		{"no bytes", "", "manifest is empty", manifest.ErrEmpty},
		{"white space", " \n\t\n", "manifest is empty", manifest.ErrEmpty},
		{"comments", "# nothing\n---\n# here\n", "manifest is empty", manifest.ErrEmpty},
		{"null", "null", "manifest is empty", manifest.ErrEmpty},
		{"binary", "\x7fELF\x02\x01\x01\x00", "manifest is not a text file: byte 0x7f at offset 0", manifest.ErrNotText},
		{"zero bytes", "kind: Pod\x00", "manifest is not a text file: byte 0x00 at offset 9", manifest.ErrNotText},
		{"latin-1", "name: \xe9", "manifest is not a text file: it is not UTF-8", manifest.ErrNotText},
		{"text", "hello", "not a Pod: the document is a string", manifest.ErrNotPod},
		{"list", "- a\n- b\n", "not a Pod: the document is a list", manifest.ErrNotPod},
		{"no kind", "a: b", "not a Pod: apiVersion and kind are missing", manifest.ErrNotPod},
		{"other kind", "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3}", `not a Pod: its kind is "Deployment"`, manifest.ErrNotPod},
		{"other version", "apiVersion: v2\nkind: Pod", `not a Pod: its apiVersion is "v2", not "v1"`, manifest.ErrNotPod},
		{"a list of pods", "apiVersion: v1\nkind: PodList\nitems: []", `not a Pod: its kind is "PodList"`, manifest.ErrNotPod},
		{"two documents", web + "---\n" + web, "more than one document, and one is expected", manifest.ErrDocuments},
		{"two JSON documents", `{"kind":"Pod"} {"kind":"Pod"}`, "more than one document, and one is expected", manifest.ErrDocuments},
		{"half a line", edited(t, "localhost/web:1", `"localhost/we`), "not valid YAML: line 9: found unexpected end of stream", manifest.ErrSyntax},
		{"bad indentation", "a:\n  b: 1\n c: 2\n", "not valid YAML: line 2: did not find expected key", manifest.ErrSyntax},
		{"bad JSON", `{"kind": "Pod", "spec": {`, "not valid YAML: line 1: did not find expected node content", manifest.ErrSyntax},
		{"infinity", "a: .inf", "not valid YAML: a number is infinite or undefined", manifest.ErrSyntax},
		{"null key", "null: 1", "not valid YAML: a key is null", manifest.ErrSyntax},
		{"a template", edited(t, "localhost/web:1", "{{ image }}"), "not valid YAML: a key is a list or a map (as in a template that is not filled in)", manifest.ErrSyntax},
		{"unknown field", edited(t, "  containers:", "  contaners:"), `unknown field "spec.contaners" (did you mean "containers"?)`, nil},
		{"unknown field in a list", edited(t, "image:", "imageName: x\n    image:"), `unknown field "spec.containers[0].imageName"`, nil},
		{"wrong case", edited(t, "image:", "Image:"), `unknown field "spec.containers[0].Image" (did you mean "image"?)`, nil},
		{"duplicate key", edited(t, "    image:", "    image: a\n    image:"), `duplicate key "image" at line 9`, nil},
		{"duplicate JSON key", `{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"a","name":"b"}]}}`,
			`duplicate key "spec.containers[0].name"`, nil},
		{"no name", edited(t, "  name: web", "  labels: {}"), "invalid pod: metadata.name: Required value: name is needed for the pod", nil},
		{"no containers", edited(t, "  - name: main\n    image: localhost/web:1\n", ""), "invalid pod: spec.containers: Required value", nil},
		{"parent folder as name", edited(t, "name: web", "name: ../../web"), "", nil},
		{"uid that is a path", edited(t, "name: web", "name: web\n  uid: ../../x"), "invalid pod: metadata.uid: Invalid value: " +
			`"../../x": must be 1 to 128 letters, digits, '-', '_' or '.', and begin with none of '-' and '.'`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod, err := strict().Pod([]byte(tt.text), origin)
			require.Error(t, err)
			assert.Nil(t, pod)
			assert.NotContains(t, err.Error(), "\n")
			if tt.want != "" {
				assert.EqualError(t, err, tt.want)
			}
			if tt.is != nil {
				assert.ErrorIs(t, err, tt.is)
			}
		})
	}
}

func TestWrongTypesNameTheField(t *testing.T) {
	tests := []struct{ old, new, want string }{
		{"image: localhost/web:1", "image: 5", "spec.containers[0].image: expected a string, got a number (put it in quotes)"},
		{"image: localhost/web:1", "image: {a: b}", "spec.containers[0].image: expected a string, got an object"},
		{"image:", "env:\n    - name: A\n      value: yes\n    image:",
			"spec.containers[0].env[0].value: expected a string, got a boolean (put it in quotes)"},
		{"  containers:", "  hostNetwork: maybe\n  containers:", "spec.hostNetwork: expected true or false, got a string"},
		{"  containers:", "  priority: 3000000000\n  containers:", "spec.priority: expected a whole number of 32 bits, got a number"},
		{"  containers:", "  terminationGracePeriodSeconds: 1.5\n  containers:",
			"spec.terminationGracePeriodSeconds: expected a whole number of 64 bits, got a number"},
		{"image:", "resources: {limits: {cpu: lots}}\n    image:",
			`spec.containers[0].resources.limits[cpu]: expected a quantity such as "500m" or "64Mi", got a string`},
		{"image:", "resources: {limits: {cpu: '1e-1000000000'}}\n    image:",
			`spec.containers[0].resources.limits[cpu]: expected a quantity such as "500m" or "64Mi", got a string`},
		{"image:", "livenessProbe: {tcpSocket: {port: 80.5}}\n    image:",
			"spec.containers[0].livenessProbe.tcpSocket.port: expected a whole number or a name, got a number"},
		{"  - name: main\n    image: localhost/web:1\n", "    a: b\n", "spec.containers: expected a list, got an object"},
		{"  - name: main\n    image: localhost/web:1\n", "  -\n", "spec.containers[0]: expected an object, got null"},
		{"spec:", "spec: x\nspecs:", ""},
		{"  name: web", "  name: web\n  labels: [a]", "metadata.labels: expected an object, got a list"},
		{"  name: web", "  name: web\n  labels: {a: 1}", "metadata.labels[a]: expected a string, got a number (put it in quotes)"},
	}
	for _, tt := range tests {
		t.Run(tt.new, func(t *testing.T) {
			_, err := strict().Pod([]byte(edited(t, tt.old, tt.new)), origin)
			if tt.want == "" {
				require.Error(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
			var shape *manifest.StructureError
			assert.ErrorAs(t, err, &shape)
		})
	}
}

func TestAllProblemsAreListed(t *testing.T) {
	_, err := strict().Pod([]byte(edited(t, "  containers:", "  a: 1\n  hostPID: x\n  containers:", "image:", "imag:")), origin)
	assert.EqualError(t, err, `unknown field "spec.a"; unknown field "spec.containers[0].imag" (did you mean "image"?); `+
		"spec.hostPID: expected true or false, got a string")

	many := strings.Repeat("  - name: ''\n", 30)
	_, err = strict().Pod([]byte(edited(t, "  - name: main\n    image: localhost/web:1\n", many)), origin)
	var invalid *manifest.InvalidError
	require.ErrorAs(t, err, &invalid)
	assert.GreaterOrEqual(t, len(invalid.Errs), 60)
	assert.Contains(t, err.Error(), "; and 50 more")
	assert.NotContains(t, err.Error(), "\n")
}

func TestLenientDecoderWarns(t *testing.T) {
	var warnings []string
	d := &manifest.Decoder{NodeName: "n", Warn: func(o manifest.Origin, w string) {
		assert.Equal(t, origin, o)
		warnings = append(warnings, w)
	}}
	pod := decode(t, d, edited(t, "image:", "imag: 1\n    image: first\n    image:"))
	assert.Equal(t, "localhost/web:1", pod.Spec.Containers[0].Image, "the last of equal keys counts")
	assert.Equal(t, []string{`unknown field "spec.containers[0].imag" (did you mean "image"?)`, `duplicate key "image" at line 10`}, warnings)

	warnings = nil
	plain := decode(t, d, web)
	assert.Empty(t, warnings)
	assert.Equal(t, plain.UID, decode(t, d, edited(t, "image:", "imag: 1\n    image:")).UID, "what is ignored is no content")
}

func TestCheckNamesTheField(t *testing.T) {
	var none *manifest.Decoder
	for want, d := range map[string]*manifest.Decoder{
		"it is nil":          none,
		`NodeName ""`:        {},
		`NodeName "a b"`:     {NodeName: "a b"},
		"MaxBytes -1 is neg": {NodeName: "n", MaxBytes: -1},
	} {
		require.ErrorIs(t, d.Check(), manifest.ErrDecoder)
		assert.ErrorContains(t, d.Check(), want)
		_, err := d.Pod([]byte(web), origin)
		assert.ErrorIs(t, err, manifest.ErrDecoder)
		_, err = d.Pods([]byte(web), origin)
		assert.ErrorIs(t, err, manifest.ErrDecoder)
	}
}
