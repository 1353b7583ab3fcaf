// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A manifest truncated within a line is often still valid YAML of another pod. It does not replace
// the former pod.
func TestTruncatedManifestKeepsThePod(t *testing.T) {
	full := pod("m", "registry/image:1") + "    command: [\"/bin/run\", \"--all\"]\n    workingDir: /srv\n"
	for cut := range len(full) {
		if full[cut] == '\n' || cut > 0 && full[cut-1] == '\n' {
			continue // a file of whole lines may be intended
		}
		bubble(t, func(t *testing.T) {
			f := newFixture(t)
			f.write("m.yaml", full)
			require.Equal(t, []string{"m=registry/image:1"}, f.settle())
			before := f.scan().Pods
			time.Sleep(time.Minute)
			f.write("m.yaml", full[:cut])
			f.settle()
			require.Equal(t, before, f.scan().Pods, "cut off after %q", full[:cut])
			require.Len(t, f.told(), 1, "one line says so")
			f.write("m.yaml", full)
			f.settle()
			require.Equal(t, before, f.scan().Pods)
			require.Equal(t, []string{"m.yaml ok"}, f.told())
		})
	}
}

func TestShorterManifestOfWholeLinesReplacesThePod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("m.yaml", pod("m", "i")+"    workingDir: /srv\n")
		f.settle()
		before := f.scan().Pods[0]
		f.write("m.yaml", pod("m", "i"))
		f.settle()
		require.NotEqual(t, before.UID, f.scan().Pods[0].UID)
		f.write("m.yaml", strings.TrimSuffix(pod("m", "i"), "\n"))
		f.settle()
		require.Empty(t, f.scan().Pods[0].Spec.Containers[0].WorkingDir)
		require.Empty(t, f.told(), "without its last line end it is the same")
	})
}
