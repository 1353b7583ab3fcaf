// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// Two folders of a pod whose records name the same volume are both torn down, and the staged volume
// of another pod stays.
func TestTwoFoldersWithTheRecordOfOneVolume(t *testing.T) {
	reachable := true
	play(t, volumetest.Options{Shared: true, Staged: true, Folders: true}, withClaims(&reachable), func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c", "d")))
		require.NoError(s, s.mount(podClaiming("b", "c")))
		s.stop()
		data, err := os.ReadFile(s.recordOf("a", "pv-d"))
		require.NoError(s, err)
		forged := strings.NewReplacer(`"name":"pv-d"`, `"name":"pv-c"`, "pv-d/globalmount", "pv-c/globalmount").Replace(string(data))
		require.NotEqual(s, string(data), forged)
		require.NoError(s, os.WriteFile(s.recordOf("a", "pv-d"), []byte(forged), 0o600))
		s.restart()
		require.NoError(s, s.remove("a"))
		assert.Equal(s, []string{"b/pv-c"}, s.plugin.Mounted())
		assert.Contains(s, s.plugin.Staged(), "pv-c")
		require.NoError(s, s.remove("b"))
		assert.Empty(s, s.plugin.Mounted())
	})
}

// Two volumes of a pod that the plugin calls the same since the restart are both torn down.
func TestTwoFoldersOfOneVolumeAfterARestart(t *testing.T) {
	edit := func(o *volumemanager.Options) { o.Claims = claims() }
	play(t, volumetest.Options{Shared: true}, edit, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c", "d")))
		s.options.Plugins = []volumemanager.Plugin{&renaming{s.plugin, "one"}}
		s.restart()
		require.NoError(s, s.remove("a"))
		assert.Empty(s, s.plugin.Mounted())
	})
}

// Two claims of a pod for one volume are refused with their names: the volume has one folder in a
// pod, and the container would wait for the other folder for ever.
func TestTwoClaimsForOneVolume(t *testing.T) {
	plugin := &renaming{id: "one"}
	edit := func(o *volumemanager.Options) {
		plugin.Plugin = o.Plugins[0].(*volumetest.Plugin)
		o.Plugins[0], o.Claims = plugin, claims()
	}
	play(t, volumetest.Options{Shared: true}, edit, func(s *stage) {
		pod := podClaiming("a", "c", "d")
		var e *volumemanager.MountError
		require.ErrorAs(s, s.mount(pod), &e)
		require.ErrorIs(s, e, volumemanager.ErrTerminal)
		assert.Equal(s, []string{"of-d"}, e.Unprocessed)
		require.ErrorContains(s, e, "pv-c and pv-d are the same volume")
		require.NoError(s, s.remove("a"))
		assert.Empty(s, s.plugin.Mounted())
	})
}
