// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

func TestPods(t *testing.T) {
	item := func(name string) string {
		return "{metadata: {name: " + name + "}, spec: {containers: [{name: a, image: i}]}}"
	}
	list := func(items ...string) string {
		return "{apiVersion: v1, kind: PodList, items: [" + strings.Join(items, ", ") + "]}"
	}
	multi := &manifest.Decoder{NodeName: "node-1", Strict: true, MultiDocument: true}
	tests := []struct {
		name, text string
		decoder    *manifest.Decoder
		want       []string
		err        string
	}{
		{"pod", web, strict(), []string{"web-node-1"}, ""},
		{"list", list(item("a"), item("b")), strict(), []string{"a-node-1", "b-node-1"}, ""},
		{"item with kind", list("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: i}]}}"), strict(), []string{"a-node-1"}, ""},
		{"empty list", list(), strict(), nil, ""},
		{"list without items", "{apiVersion: v1, kind: PodList}", strict(), nil, ""},
		{"bad pod", "{apiVersion: v1, kind: Pod}", strict(), nil, "1:1: metadata.name: Required value: every pod needs a name"},
		{"one bad item", list(item("a"), item("A"), item("b")), strict(), nil, `1:125: metadata.name: Invalid value: "A-node-1"`},
		{"two bad items", list("{}", "{x: 1}"), strict(), nil, "1:41: metadata.name: Required value: every pod needs a name (pod 1 of 2); 1:46: x: unknown field: remove it (pod 2 of 2)"},
		{"items of a wrong type", "{apiVersion: v1, kind: PodList, items: 5}", strict(), nil, "items: expected a list, got a number"},
		{"item of a wrong type", list("5"), strict(), nil, "items[0]: expected an object, got a number"},
		{"item of another kind", list("{apiVersion: v1, kind: Secret}"), strict(), nil, `items[0].kind: not a Pod: its kind is "Secret"`},
		{"duplicate key in an item", list("{metadata: {name: a, name: b}}"), strict(), nil, "pod 1 of 1"},
		{"documents", web + "---\n" + list(item("a")), strict(), nil, "9:1: more than one document, and one is expected: write each pod to a file of its own"},
		{"documents wanted", web + "---\n# nothing\n---\n" + list(item("a")), multi, []string{"web-node-1", "a-node-1"}, ""},
		{"a foreign document", web + "---\n{apiVersion: v1, kind: Service}", multi, nil, `not a Pod: its kind is "Service"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pods, err := tt.decoder.Pods([]byte(tt.text), origin)
			if tt.name == "duplicate key in an item" {
				require.ErrorContains(t, err, "duplicate key")
				return
			}
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				assert.Nil(t, pods)
				return
			}
			require.NoError(t, err)
			var names []string
			for _, p := range pods {
				names = append(names, p.Name)
			}
			assert.Equal(t, tt.want, names)
		})
	}
}

// The kubelet gives a URL's pod the same UID on every node.
func TestUpstreamSameURLOnTwoNodesSameUID(t *testing.T) {
	o := manifest.Origin{Kind: manifest.OriginURL, Location: "http://localhost/pod"}
	a, err := (&manifest.Decoder{NodeName: "a"}).Pods([]byte(web), o)
	require.NoError(t, err)
	b, err := (&manifest.Decoder{NodeName: "b"}).Pods([]byte(web), o)
	require.NoError(t, err)
	assert.NotEqual(t, a[0].UID, b[0].UID)
}

// As in the kubelet, a file of exactly the limit is rejected, and a file smaller by a byte is
// accepted.
func TestSizeLimitIsExclusive(t *testing.T) {
	d := &manifest.Decoder{NodeName: "n", MaxBytes: int64(len(web))}
	_, err := d.Pod([]byte(web), origin)
	require.ErrorIs(t, err, manifest.ErrTooLarge)
	_, err = d.Pod([]byte(web[:len(web)-1]), origin)
	require.NoError(t, err)
	assert.Equal(t, int64(10<<20), strict().Limit())
}
