// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestYAMLIsReadAsKubernetesReadsIt(t *testing.T) {
	pod := decode(t, strict(), edited(t, "  containers:", `  hostPID: yes
  hostIPC: off
  volumes:
  - name: a
    downwardAPI: {defaultMode: 0644}
  containers:`, "image:", `command: &words [sleep, "1_000"]
    args: *words
    env:
    - {name: DATE, value: "2001-01-01"}
    image:`))
	assert.True(t, pod.Spec.HostPID)
	assert.False(t, pod.Spec.HostIPC)
	assert.Equal(t, int32(0o644), *pod.Spec.Volumes[0].DownwardAPI.DefaultMode)
	assert.Equal(t, pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args)
}

func TestYAMLMergeKeyMayBeOverridden(t *testing.T) {
	pod := decode(t, strict(), edited(t, "  - name: main\n    image: localhost/web:1\n", `  - &base
    name: main
    image: localhost/web:1
  - <<: *base
    name: second
`))
	assert.Equal(t, "second", pod.Spec.Containers[1].Name)
	assert.Equal(t, "localhost/web:1", pod.Spec.Containers[1].Image)
}

func TestByteOrderMarkAndSeparatorsAreNoContent(t *testing.T) {
	want := decode(t, strict(), web)
	for _, text := range []string{"\ufeff" + web, "---\n" + web, "# c\n---\n" + web + "---\n", web + "...\n", "--- # a\n---\n" + web,
		strings.ReplaceAll(web, "\n", "\r\n")} {
		assert.Equal(t, want, decode(t, strict(), text))
	}
}

// bomb doubles a list n times.
func bomb(n int) string {
	var b strings.Builder
	b.WriteString("x0: &x0 [a,a,a,a,a,a,a,a,a]\n")
	for i := range n {
		fmt.Fprintf(&b, "x%d: &x%d [*x%d,*x%d,*x%d,*x%d,*x%d,*x%d,*x%d,*x%d,*x%d]\n", i+1, i+1, i, i, i, i, i, i, i, i, i)
	}
	return b.String()
}

func TestHugeInputIsRefusedInBoundedMemory(t *testing.T) {
	const limit = 2 << 20 // enough for any count to be too high
	fill := func(begin, unit, end string) string {
		return begin + strings.Repeat(unit, (limit-len(begin)-len(end)-1)/len(unit)) + end
	}
	containers := "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: ["
	tests := []struct{ name, text, want string }{
		{"long", strings.Repeat("#", limit), "manifest is too large: it must be smaller than 2097152 bytes"},
		{"flow list", fill("a: [", "1,", "1]"), "manifest is too large: more than 400000 values"},
		{"block list", fill("", "-\n", ""), "manifest is too large: more than 400000 values"},
		{"JSON list", fill("[", "1,", "1]"), "manifest is too large: more than"},
		{"JSON objects", fill(`{"a":[`, "{},", "{}]}"), "manifest is too large: more than 100000 values"},
		{"containers", fill(containers, "{},", "{}]}}"), "manifest is too large: more than 400000 values"},
		{"nested lists", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "manifest is too large: nested deeper than 64 levels"},
		{"nested YAML", strings.Repeat("- ", 5000) + "a", "manifest is too large: nested deeper than 64 levels"},
		{"alias bomb", bomb(9), "manifest is too large: more than 100000 values"},
		{"aliases", "a: &a [" + strings.Repeat("1,", 2000) + "]\nb: [" + strings.Repeat("*a,", 60) + "]", "manifest is too large: more than 100000 values"},
		{"alias of a large text", "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a, ", 900) + "]",
			"manifest is too large: its aliases expand beyond the size limit"},
		{"alias of itself", "a: &a [*a]", "1:8: not valid YAML: an anchor contains itself"},
		{"one long line", "a: " + strings.Repeat("x", limit-10), "not a Pod: apiVersion and kind are missing"},
	}
	d := strict()
	d.MaxBytes = limit
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after goruntime.MemStats
			goruntime.ReadMemStats(&before)
			_, err := d.Pod([]byte(tt.text), origin)
			goruntime.ReadMemStats(&after)
			require.ErrorContains(t, err, tt.want)
			assert.Less(t, len(err.Error()), 200)
			assert.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(200), "MiB allocated")
		})
	}
}
