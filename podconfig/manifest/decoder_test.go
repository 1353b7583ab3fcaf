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

// edited returns web with replacements, each of which must match.
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
		{"binary", "\x7fELF\x02\x01\x01\x00", "1:1: manifest is not a text file: it contains the byte 0x7f", manifest.ErrNotText},
		{"zero bytes", "kind: Pod\x00", "1:10: manifest is not a text file: it contains the byte 0x00", manifest.ErrNotText},
		{"latin-1", "name: \xe9", "1:7: manifest is not a text file: the byte 0xe9 is not UTF-8: save the file as UTF-8", manifest.ErrNotText},
		{"text", "hello", "1:1: not a Pod: the document is a string", manifest.ErrNotPod},
		{"list", "- a\n- b\n", "1:1: not a Pod: the document is a list", manifest.ErrNotPod},
		{"no kind", "a: b", `1:1: not a Pod: apiVersion and kind are missing: begin with "apiVersion: v1" and "kind: Pod"`, manifest.ErrNotPod},
		{"other kind", "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3}", `2:7: kind: not a Pod: its kind is "Deployment", not "Pod": no controller runs here, write the pod of its template`, manifest.ErrNotPod},
		{"other version", "apiVersion: v2\nkind: Pod", `1:13: apiVersion: not a Pod: its apiVersion is "v2", not "v1"`, manifest.ErrNotPod},
		{"a list of pods", "apiVersion: v1\nkind: PodList\nitems: []", `2:7: kind: not a Pod: its kind is "PodList", not "Pod"`, manifest.ErrNotPod},
		{"two documents", web + "---\n" + web, "9:1: more than one document, and one is expected: write each pod to a file of its own", manifest.ErrDocuments},
		{"two JSON documents", `{"kind":"Pod"} {"kind":"Pod"}`, "more than one document, and one is expected: write each pod to a file of its own", manifest.ErrDocuments},
		{"half a line", edited(t, "localhost/web:1", `"localhost/we`), "8:5: not valid YAML: a quote that begins here is not closed", manifest.ErrSyntax},
		{"bad indentation", "a:\n  b: 1\n c: 2\n", "3:2: not valid YAML: the line does not fit the lines above it: check its indentation", manifest.ErrSyntax},
		{"bad JSON", `{"kind": "Pod", "spec": {`, "1:1: not valid YAML: a value or a closing ] or } is missing", manifest.ErrSyntax},
		{"infinity", "a: .inf", "1:4: not valid YAML: a number is infinite or undefined", manifest.ErrSyntax},
		{"null key", "null: 1", "1:1: not valid YAML: a key is null", manifest.ErrSyntax},
		{"a template", edited(t, "localhost/web:1", "{{ image }}"), "8:13: not valid YAML: a key is a list or a map, as in a template that is not filled in: put a value that begins with { or [ in quotes", manifest.ErrSyntax},
		{"unknown field", edited(t, "  containers:", "  contaners:"), `6:3: spec.contaners: unknown field, did you mean "containers"?`, nil},
		{"unknown field in a list", edited(t, "image:", "imageName: x\n    image:"), "8:5: spec.containers[0].imageName: unknown field: remove it", nil},
		{"wrong case", edited(t, "image:", "Image:"), `8:5: spec.containers[0].Image: unknown field, did you mean "image"?`, nil},
		{"duplicate key", edited(t, "    image:", "    image: a\n    image:"), "9:5: spec.containers[0].image: duplicate key, it is already on line 8: remove one of them", nil},
		{"duplicate JSON key", `{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"a","name":"b"}]}}`,
			"1:67: spec.containers[0].name: duplicate key: remove one of them", nil},
		{"no name", edited(t, "  name: web", "  labels: {}"), "3:1: metadata.name: Required value: every pod needs a name", nil},
		{"no containers", edited(t, "  - name: main\n    image: localhost/web:1\n", ""), "6:14: spec.containers: Required value: a pod needs at least one container", nil},
		{"parent folder as name", edited(t, "name: web", "name: ../../web"), "", nil},
		{"uid that is a path", edited(t, "name: web", "name: web\n  uid: ../../x"), "5:8: metadata.uid: Invalid value: " +
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

// An explicit false is rejected without pod networks; a missing field is accepted.
func TestOnlyHostNetwork(t *testing.T) {
	with := func(text string) string { return edited(t, "  containers:", "  hostNetwork: "+text+"\n  containers:") }
	decoder := strict()
	_, err := decoder.Pod([]byte(with("false")), origin)
	require.NoError(t, err)
	decoder.OnlyHostNetwork = true
	_, err = decoder.Pod([]byte(with("false")), origin)
	require.EqualError(t, err, "6:16: spec.hostNetwork: this node has no pod networks, every pod is on the host's: set it to true or remove it")
	_, err = decoder.Pods([]byte(with("false")), origin)
	require.ErrorContains(t, err, "6:16: spec.hostNetwork: ")
	for _, text := range []string{with("true"), with("null"), edited(t, "  containers:", "  containers:")} {
		_, err = decoder.Pod([]byte(text), origin)
		require.NoError(t, err, text)
	}
}

func TestWrongTypesNameTheField(t *testing.T) {
	tests := []struct{ old, new, want string }{
		{"image: localhost/web:1", "image: 5", "8:12: spec.containers[0].image: expected a string, got a number: put it in quotes"},
		{"image: localhost/web:1", "image: {a: b}", "8:5: spec.containers[0].image: expected a string, got an object"},
		{"image:", "env:\n    - name: A\n      value: yes\n    image:",
			"10:14: spec.containers[0].env[0].value: expected a string, got a boolean: put it in quotes"},
		{"  containers:", "  hostNetwork: maybe\n  containers:", "6:16: spec.hostNetwork: expected true or false, got a string"},
		{"  containers:", "  priority: 3000000000\n  containers:", "6:13: spec.priority: expected a whole number of 32 bits, got a number"},
		{"  containers:", "  terminationGracePeriodSeconds: 1.5\n  containers:",
			"6:34: spec.terminationGracePeriodSeconds: expected a whole number, got a number"},
		{"image:", "resources: {limits: {cpu: lots}}\n    image:",
			`8:31: spec.containers[0].resources.limits[cpu]: expected a quantity such as "500m" or "64Mi", got a string`},
		{"image:", "resources: {limits: {cpu: '1e-1000000000'}}\n    image:",
			`8:31: spec.containers[0].resources.limits[cpu]: expected a quantity such as "500m" or "64Mi", got a string`},
		{"image:", "livenessProbe: {tcpSocket: {port: 80.5}}\n    image:",
			"8:39: spec.containers[0].livenessProbe.tcpSocket.port: expected a whole number or a name, got a number"},
		{"  - name: main\n    image: localhost/web:1\n", "    a: b\n", `6:3: spec.containers: expected a list, got an object: begin each item with "- "`},
		{"  - name: main\n    image: localhost/web:1\n", "  -\n", "7:4: spec.containers[0]: expected an object, got null: the lines that belong to it are missing or have a wrong indentation"},
		{"spec:", "spec: x\nspecs:", ""},
		{"  name: web", "  name: web\n  labels: [a]", "5:3: metadata.labels: expected an object, got a list"},
		{"  name: web", "  name: web\n  labels: {a: 1}", "5:15: metadata.labels[a]: expected a string, got a number: put it in quotes"},
	}
	for _, tt := range tests {
		t.Run(tt.new, func(t *testing.T) {
			_, err := strict().Pod([]byte(edited(t, tt.old, tt.new)), origin)
			if tt.want == "" {
				require.Error(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
			var wrong *manifest.Error
			assert.ErrorAs(t, err, &wrong)
		})
	}
}

func TestAllProblemsAreListed(t *testing.T) {
	_, err := strict().Pod([]byte(edited(t, "  containers:", "  a: 1\n  hostPID: x\n  containers:", "image:", "imag:")), origin)
	assert.EqualError(t, err, `6:3: spec.a: unknown field: remove it; 10:5: spec.containers[0].imag: unknown field, did you mean "image"?; `+
		"7:12: spec.hostPID: expected true or false, got a string")

	many := strings.Repeat("  - name: ''\n", 30)
	_, err = strict().Pod([]byte(edited(t, "  - name: main\n    image: localhost/web:1\n", many)), origin)
	var wrong *manifest.Error
	require.ErrorAs(t, err, &wrong)
	assert.GreaterOrEqual(t, len(wrong.Problems), 60)
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
	assert.Equal(t, []string{`8:5: spec.containers[0].imag: unknown field, did you mean "image"?`,
		"10:5: spec.containers[0].image: duplicate key, it is already on line 9: remove one of them"}, warnings)

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
