// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"os"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/volumemanager"
)

func refreshCases() []testCase {
	return []testCase{
		{"RefreshShowsTheChange", refreshShowsTheChange},
		{"RefreshAfterRestartShowsTheChange", refreshAfterRestart},
		{"RefreshThatFailsKeepsTheContent", refreshThatFails},
		{"RefreshWithoutChangeChangesNothing", refreshWithoutChange},
	}
}

// needsRefresh skips the case if the volume's content cannot change.
func (b *bench) needsRefresh() {
	r, ok := b.plugin.(volumemanager.Refresher)
	if !ok || !r.NeedsRefresh(b.Spec) {
		b.Skip("the volume needs no refresh")
	}
}

func refreshShowsTheChange(b *bench) {
	b.needsRefresh()
	require.NotNil(b, b.Change, "volumetest: Subject.Change is required of a volume that needs refresh")
	b.stage()
	m := b.mount("pod-0")
	mounted := b.setUp(m)
	before, id := b.look(mounted), b.identity(mounted)
	m.Remount = true
	for range 3 {
		b.Change()
		b.setUp(m)
		require.NotEqual(b, before, b.look(mounted), "SetUp with Remount renews the content")
		require.True(b, os.SameFile(id, b.identity(mounted)), "SetUp with Remount keeps the inode that containers have mounted")
		before = b.look(mounted)
	}
	b.tearDown(b.unmount("pod-0"))
	b.gone("pod-0")
	b.unstage()
}

func refreshAfterRestart(b *bench) {
	b.needsRefresh()
	b.stage()
	m := b.mount("pod-0")
	mounted := b.setUp(m)
	before, id := b.look(mounted), b.identity(mounted)
	b.restart()
	b.Change()
	m.Reconstructed = true
	b.setUp(m)
	require.NotEqual(b, before, b.look(mounted), "SetUp of a reconstructed volume renews the content")
	require.True(b, os.SameFile(id, b.identity(mounted)), "SetUp of a reconstructed volume keeps the inode that containers have mounted")
	b.tearDown(b.unmount("pod-0"))
	b.unstage()
}

// refreshThatFails is the test for issues 113242 and 121271: the kubelet removes the volume of a
// running container.
func refreshThatFails(b *bench) {
	if b.Break == nil {
		b.Skip("SetUp cannot be made to fail")
	}
	b.stage()
	mounted := b.setUp(b.mount("pod-0"))
	before, id := b.look(mounted), b.identity(mounted)
	for _, m := range []volumemanager.Mount{b.mount("pod-0"), b.mount("pod-0")} {
		m.Remount = true
		repair := b.Break()
		_, err := b.plugin.SetUp(b.Context(), m)
		require.Error(b, err, "Subject.Break makes SetUp fail")
		require.Equal(b, before, b.look(mounted), "a SetUp with Remount that fails keeps the last good content")
		require.True(b, os.SameFile(id, b.identity(mounted)), "a SetUp with Remount that fails keeps the inode")
		b.restart()
		m.Remount, m.Reconstructed = false, true
		_, err = b.plugin.SetUp(b.Context(), m)
		require.Error(b, err, "Subject.Break makes SetUp fail")
		require.Equal(b, before, b.look(mounted), "a SetUp of a reconstructed volume that fails keeps its content")
		require.True(b, os.SameFile(id, b.identity(mounted)), "a SetUp of a reconstructed volume that fails keeps the inode")
		repair()
		b.setUp(m)
	}
	b.tearDown(b.unmount("pod-0"))
	b.gone("pod-0")
	b.unstage()
}

func refreshWithoutChange(b *bench) {
	b.needsRefresh()
	b.stage()
	m := b.mount("pod-0")
	mounted := b.setUp(m)
	before := tree(b.T, mounted.Path)
	m.Remount = true
	b.setUp(m)
	require.Equal(b, before, tree(b.T, mounted.Path), "SetUp with Remount and nothing new writes nothing")
	b.tearDown(b.unmount("pod-0"))
	b.unstage()
}
