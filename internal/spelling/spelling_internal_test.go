// SPDX-License-Identifier: Apache-2.0

package spelling

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"ab", "ba", 2}, {"contaners", "containers", 1}, {"kitten", "sitting", 3}, {"a", "abcd", 3}} {
		assert.Equal(t, tt.want, distance(tt.a, tt.b, 4), tt.a+" "+tt.b)
		assert.Equal(t, tt.want, distance(tt.b, tt.a, 4), tt.b+" "+tt.a)
	}
	assert.Equal(t, 2, distance("a", "abcd", 2), "gives up")
}

func TestNearest(t *testing.T) {
	names := []string{"TCP", "UDP", "volumeMounts", "image", "imagePullPolicy"}
	for word, want := range map[string]string{"tcp": "TCP", "volumemount": "volumeMounts", "imagee": "image", "x": "", "autoscale": ""} {
		assert.Equal(t, want, Nearest(word, names), word)
	}
}

func TestSimilar(t *testing.T) {
	names := []string{"pod-manifest-path", "manifest-url", "root-dir", "v"}
	assert.Equal(t, names[:2], Similar("manifests", names))
	assert.Equal(t, names[2:3], Similar("the-root", names))
	assert.Empty(t, Similar("v2", names))
	assert.Empty(t, Similar("rood", names), "short words differ by much")
}
