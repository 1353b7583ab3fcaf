// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

func BenchmarkPod(b *testing.B) {
	full, err := os.ReadFile("testdata/full.yaml")
	require.NoError(b, err)
	asJSON, err := yaml.YAMLToJSON(full)
	require.NoError(b, err)
	require.True(b, json.Valid(asJSON))
	for _, bb := range []struct {
		name string
		data []byte
	}{{"yaml", full}, {"json", asJSON}, {"small", []byte(web)}} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := strict().Pod(bb.data, manifest.Origin{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
