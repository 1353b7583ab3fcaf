// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// FuzzDecode looks for input that panics, gives an error of more than a line, or decodes to an
// invalid pod. The corpus is in testdata/fuzz.
func FuzzDecode(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	require.NoError(f, err)
	f.Add(full)
	f.Add([]byte(web))
	f.Add([]byte(bomb(3)))
	decoders := []*manifest.Decoder{strict(), {NodeName: "Node-1", MaxBytes: 1 << 16, MultiDocument: true}}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range decoders {
			pod, err := d.Pod(data, origin)
			if err != nil {
				assert.Nil(t, pod)
				assert.NotEmpty(t, err.Error())
				assert.NotContains(t, err.Error(), "\n")
				assert.NotContains(t, err.Error(), "does not fit a Pod", "conform lets through what does not decode")
				assert.Less(t, len(err.Error()), 8<<10)
			} else {
				assert.True(t, strings.HasSuffix(pod.Name, "-node-1"))
				assert.NotEmpty(t, pod.UID)
				assert.NotContains(t, pod.UID, "/")
				assert.NotEmpty(t, pod.Annotations[podconfig.AnnotationHash])
				assert.False(t, podconfig.IsMirror(pod))
				again, err := d.Pod(data, origin)
				require.NoError(t, err)
				assert.Equal(t, pod, again, "deterministic")
			}
			_, err = d.Pods(data, origin)
			if err != nil {
				assert.NotContains(t, err.Error(), "\n")
			}
		}
	})
}
