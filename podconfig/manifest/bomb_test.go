// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// TestLargestInputAllocatesAFewTimesItsSize expects that decoding the largest permitted manifest
// (here 3 MiB, to be quick) allocates a small multiple of its size, whatever the content. Decoded
// naively, a document of empty mappings takes a thousand times its size as pods.
func TestLargestInputAllocatesAFewTimesItsSize(t *testing.T) {
	const limit = 3 << 20
	const size, most = limit - 1, 10 * limit
	d := &manifest.Decoder{NodeName: "n", MaxBytes: limit}
	fill := func(begin, unit, end string) string {
		return begin + strings.Repeat(unit, (size-len(begin)-len(end))/len(unit)) + end
	}
	for name, text := range map[string]string{
		"containers":     fill("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [", "{},", "{}]}}"),
		"one list":       fill("a: [", "1,", "1]"),
		"dashes":         fill("", "-\n", ""),
		"JSON objects":   fill(`{"a":[`, "{},", "{}]}"),
		"keys":           fill("", "a: b\n", ""),
		"complex keys":   fill("", "? - - -\n: a\n", ""),
		"documents":      fill("", "---\n", ""),
		"anchors":        fill("", "- &a\n", ""),
		"comments":       fill("", "#\n", ""),
		"one text":       fill("a: '", "''", "'"),
		"escapes":        fill("a: \"", "\\x41", "\""),
		"indentation":    fill("a:\n", " \n", "b"),
		"doubled lists":  fill(bomb(8), "#", ""),
		"quoted aliases": fill("a: &a x\nb: [", "*a,", "*a]"),
	} {
		if !casetest.Chosen(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			data := []byte(text)
			var before, after goruntime.MemStats
			goruntime.ReadMemStats(&before)
			_, err := d.Pod(data, origin)
			goruntime.ReadMemStats(&after)
			require.Error(t, err)
			require.Less(t, len(err.Error()), 200)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(most))
		})
	}
}
