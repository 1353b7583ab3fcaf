// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// TestMistakes checks the exact message for typical mistakes: testdata/mistakes/NAME.yaml has a
// mistake, and NAME.want is the message for its author. -rewrite writes the messages anew.
func TestMistakes(t *testing.T) {
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 50)
	whole := map[string]bool{"empty": true} // mistakes without a position
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			_, err = strict().Pod(data, manifest.Origin{Kind: manifest.OriginFile, Location: "/m/" + name})
			var wrong *manifest.Error
			require.ErrorAs(t, err, &wrong)
			want := strings.TrimSuffix(path, ".yaml") + ".want"
			if *rewrite {
				require.NoError(t, os.WriteFile(want, []byte(err.Error()+"\n"), 0o644))
			}
			text, err := os.ReadFile(want)
			require.NoError(t, err)
			assert.Equal(t, strings.TrimSuffix(string(text), "\n"), wrong.Error())
			for _, p := range wrong.Problems {
				assert.Equal(t, whole[name], p.Position == manifest.Position{}, "has a position: %s", p)
			}
			assert.NotContains(t, wrong.Error(), "hush")
		})
	}
}
