// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/volumemanager"
)

func tearDownCases() []testCase {
	return []testCase{
		{"TearDownRemovesTheVolume", tearDownRemovesTheVolume},
		{"TearDownIsIdempotent", tearDownIsIdempotent},
		{"TearDownOfNeverSetUp", tearDownOfNeverSetUp},
		{"TearDownAfterRestartWithoutRecord", tearDownAfterRestart},
		{"TearDownAfterCrashBeforeSetUp", tearDownAfterCrashBeforeSetUp},
		{"TearDownAfterFailedSetUp", tearDownAfterFailedSetUp},
		{"TearDownOfOnePodLeavesTheOther", tearDownOfOnePod},
		{"TearDownFollowsNoLink", tearDownFollowsNoLink},
		{"TearDownKeepsDurableData", tearDownKeepsDurableData},
	}
}

func tearDownRemovesTheVolume(b *bench) {
	before := tree(b.T, b.root)
	b.stage()
	mounted := b.setUp(b.mount("pod-1"))
	if !b.Durable {
		b.write(mounted, "written-by-a-container")
	}
	u := b.unmount("pod-1")
	u.Path = mounted.Path
	b.tearDown(u)
	b.gone("pod-1")
	b.unstage()
	for name, what := range tree(b.T, b.root) {
		if _, ok := before[name]; ok {
			continue
		}
		require.Truef(b, what[0] == 'd', "TearDown left %s: nothing but empty folders may remain", name)
	}
}

func tearDownIsIdempotent(b *bench) {
	b.stage()
	b.setUp(b.mount("pod-0"))
	for range 3 {
		b.tearDown(b.unmount("pod-0"))
		b.gone("pod-0")
	}
	b.restart()
	b.tearDown(b.unmount("pod-0"))
	b.unstage()
}

func tearDownOfNeverSetUp(b *bench) {
	before := tree(b.T, b.root)
	b.tearDown(b.unmount("pod-1"))
	u := b.unmount("pod-1")
	u.Spec = volumemanager.Spec{}
	if !b.Spec.Block() {
		require.NoError(b, b.plugin.TearDown(b.Context(), u), "TearDown with a zero Spec of a volume that was never set up")
	}
	require.Equal(b, before, tree(b.T, b.root), "TearDown of a volume that was never set up does nothing")
}

func tearDownAfterRestart(b *bench) {
	b.stage()
	b.setUp(b.mount("pod-0"))
	b.restart()
	u := b.unmount("pod-0")
	u.Spec = volumemanager.Spec{}
	if r, ok := b.plugin.(volumemanager.Reconstructor); ok {
		spec, err := r.Reconstruct(b.place("pod-0"))
		require.NoError(b, err, "Reconstruct of a volume that is set up")
		u.Spec = spec
	}
	b.tearDown(u)
	b.gone("pod-0")
	b.restart()
	b.unstage()
}

func tearDownAfterCrashBeforeSetUp(b *bench) {
	name := b.record("pod-1")
	b.tearDown(b.unmount("pod-1"))
	require.FileExists(b, name, "the mount record is the manager's")
	b.stage()
	b.setUp(b.mount("pod-1"))
	b.tearDown(b.unmount("pod-1"))
	require.NoError(b, os.Remove(name))
	b.gone("pod-1")
	b.unstage()
}

func tearDownAfterFailedSetUp(b *bench) {
	if b.Break == nil {
		b.Skip("SetUp cannot be made to fail")
	}
	b.stage()
	repair := b.Break()
	_, err := b.plugin.SetUp(b.Context(), b.mount("pod-1"))
	require.Error(b, err, "Subject.Break makes SetUp fail")
	b.tearDown(b.unmount("pod-1"))
	b.gone("pod-1")
	repair()
	b.setUp(b.mount("pod-1"))
	b.tearDown(b.unmount("pod-1"))
	b.unstage()
}

func tearDownOfOnePod(b *bench) {
	b.stage()
	stays, goes := b.setUp(b.mount("pod-0")), b.setUp(b.mount("pod-1"))
	before, id := b.look(stays), b.identity(stays)
	u := b.unmount("pod-1")
	u.Path = goes.Path
	b.tearDown(u)
	b.gone("pod-1")
	require.Equal(b, before, b.look(stays), "TearDown leaves the volume of another pod alone")
	require.True(b, os.SameFile(id, b.identity(stays)), "TearDown leaves the volume of another pod alone")
	b.tearDown(b.unmount("pod-0"))
	b.unstage()
}

func tearDownFollowsNoLink(b *bench) {
	if b.ReadOnly || b.Durable {
		b.Skip("containers cannot write to the volume, or it is not removed")
	}
	precious := filepath.Join(b.TempDir(), "precious")
	require.NoError(b, os.MkdirAll(filepath.Join(precious, "deep"), 0o700))
	require.NoError(b, os.WriteFile(filepath.Join(precious, "deep", "data"), []byte("data"), 0o600))
	b.stage()
	mounted := b.setUp(b.mount("pod-0"))
	if mounted.Path == "" || !b.identity(mounted).IsDir() {
		b.tearDown(b.unmount("pod-0"))
		b.unstage()
		b.Skip("the volume is no folder")
	}
	before := tree(b.T, precious)
	require.NoError(b, os.Symlink(precious, filepath.Join(mounted.Path, "link")))
	require.NoError(b, os.MkdirAll(filepath.Join(mounted.Path, "sub"), 0o700))
	require.NoError(b, os.Symlink("../../../../../../../../"+precious, filepath.Join(mounted.Path, "sub", "link")))
	b.tearDown(b.unmount("pod-0"))
	b.gone("pod-0")
	require.Equal(b, before, tree(b.T, precious), "TearDown follows no link that a container planted")
	b.unstage()
}

func tearDownKeepsDurableData(b *bench) {
	if !b.Durable {
		b.Skip("the volume is not durable")
	}
	b.stage()
	mounted := b.setUp(b.mount("pod-0"))
	const name = "durable-data-of-a-container"
	if !b.write(mounted, name) {
		b.tearDown(b.unmount("pod-0"))
		b.unstage()
		b.Skip("containers cannot write to the volume")
	}
	b.tearDown(b.unmount("pod-0"))
	b.unstage()
	b.restart()
	b.stage()
	again := b.setUp(b.mount("pod-0"))
	require.FileExists(b, filepath.Join(again.Path, name), "what lies in the volume is the user's")
	b.unwrite(again, name)
	b.tearDown(b.unmount("pod-0"))
	b.unstage()
}
