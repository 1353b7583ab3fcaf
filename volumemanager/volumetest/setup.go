// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
)

func setUpCases() []testCase {
	return []testCase{
		{"NameIsQualifiedAndConstant", nameIsQualified},
		{"SupportsItsVolumeAndNotNone", supports},
		{"SetUpIsIdempotent", setUpIsIdempotent},
		{"SetUpTouchesItsOwnFoldersOnly", setUpTouchesItsOwnFoldersOnly},
		{"SetUpLeavesTheMountRecordAlone", setUpLeavesTheRecordAlone},
		{"SetUpAfterRestartKeepsWhatIsInUse", setUpAfterRestart},
		{"SetUpAfterTearDown", setUpAfterTearDown},
		{"SetUpOfManyPodsAtOnce", setUpOfManyPodsAtOnce},
		{"SetUpWithEndedContext", setUpWithEndedContext},
	}
}

func nameIsQualified(b *bench) {
	name := b.plugin.Name()
	require.NotEmpty(b, name, "Plugin.Name is a qualified name")
	require.NotContains(b, name, "~", "Plugin.Name has no ~, it would not survive escaping")
	require.NotContains(b, name, "..", "Plugin.Name is a qualified name")
	prefix, rest, ok := strings.Cut(name, "/")
	require.True(b, ok && prefix != "" && rest != "", "Plugin.Name is a qualified name: prefix/name, not %q", name)
	require.Equal(b, name, b.Plugin().Name(), "Plugin.Name never changes")
}

func supports(b *bench) {
	require.True(b, b.plugin.Supports(b.Spec), "Supports says so of the harness's volume")
	require.False(b, b.plugin.Supports(volumemanager.Spec{}), "Supports does not take a Spec of nothing")
	require.NoError(b, b.place("pod-0").Check(), "the volume's place is inside of the root")
}

func setUpIsIdempotent(b *bench) {
	b.stage()
	first := b.setUp(b.mount("pod-0"))
	before, id := b.look(first), b.identity(first)
	for range 2 {
		require.Equal(b, first, b.setUp(b.mount("pod-0")), "SetUp again returns the same")
		require.Equal(b, before, b.look(first), "SetUp again leaves the content as it is")
		require.True(b, os.SameFile(id, b.identity(first)), "SetUp again keeps the inode that containers have mounted")
	}
	b.tearDown(b.unmount("pod-0"))
	b.unstage()
}

// look returns the content of m, nil if the runtime finds the volume by itself.
func (b *bench) look(m volumemanager.Mounted) map[string]string {
	if m.Path == "" {
		return nil
	}
	return content(b.T, m.Path)
}

// identity returns the file info of m, to detect a replacement of the file.
func (b *bench) identity(m volumemanager.Mounted) os.FileInfo {
	path := m.Path
	if path == "" {
		path = b.root
	}
	info, err := os.Stat(path)
	require.NoError(b, err)
	return info
}

func setUpTouchesItsOwnFoldersOnly(b *bench) {
	b.stage()
	before := tree(b.T, b.root)
	b.setUp(b.mount("pod-1"))
	p := b.place("pod-1")
	own := []string{p.Dir(), p.StateDir()}
	if b.Spec.Block() {
		own = append(own, p.BlockPath())
	}
	if dir := b.deviceDir(); dir != "" {
		own = append(own, dir)
	}
	for name, what := range tree(b.T, b.root) {
		if anyBelow(name, own) || before[name] == what {
			continue
		}
		if was, ok := before[name]; ok {
			b.Errorf("SetUp changed %s from %s to %s: it touches nothing but Dir and StateDir", name, was, what)
			continue
		}
		if !isParentOf(name, own) {
			b.Errorf("SetUp made %s: it touches nothing but Dir and StateDir", name)
			continue
		}
		assert.Truef(b, strings.HasPrefix(what, "drwxr-x---"), "parents of Dir are made with 0750, %s is %s", name, what)
	}
	b.tearDown(b.unmount("pod-1"))
	b.unstage()
}

func anyBelow(name string, tops []string) bool {
	for _, top := range tops {
		if name == top || strings.HasPrefix(name, top+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

func isParentOf(name string, tops []string) bool {
	for _, top := range tops {
		if strings.HasPrefix(top, name+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// record writes a mount record as the manager does before SetUp.
func (b *bench) record(uid types.UID) string {
	name := b.place(uid).Record()
	require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o750))
	require.NoError(b, os.WriteFile(name, []byte("{}"), 0o600))
	return name
}

func setUpLeavesTheRecordAlone(b *bench) {
	name := b.record("pod-1")
	want := tree(b.T, name)
	b.stage()
	b.setUp(b.mount("pod-1"))
	require.Equal(b, want, tree(b.T, name), "the mount record is the manager's")
	b.tearDown(b.unmount("pod-1"))
	require.Equal(b, want, tree(b.T, name), "the mount record is the manager's, which removes it after TearDown")
	b.unstage()
}

func setUpAfterRestart(b *bench) {
	b.stage()
	m := b.mount("pod-0")
	first := b.setUp(m)
	b.write(first, "written-by-a-container")
	before, id := b.look(first), b.identity(first)
	b.restart()
	b.stage()
	m.Reconstructed = true
	require.Equal(b, first, b.setUp(m), "SetUp of a reconstructed volume returns the same")
	require.Equal(b, before, b.look(first), "SetUp of a reconstructed volume keeps its content")
	require.True(b, os.SameFile(id, b.identity(first)), "SetUp of a reconstructed volume keeps the inode that containers have mounted")
	b.unwrite(first, "written-by-a-container")
	b.tearDown(b.unmount("pod-0"))
	b.unstage()
}

// write writes a file to the volume as a container does, and reports whether the volume is
// writable.
func (b *bench) write(m volumemanager.Mounted, name string) bool {
	if b.ReadOnly || m.ReadOnly || m.Path == "" || !b.identity(m).IsDir() {
		return false
	}
	require.NoError(b, os.WriteFile(filepath.Join(m.Path, name), []byte("data"), 0o600))
	return true
}

// unwrite removes the file of write if it would survive TearDown.
func (b *bench) unwrite(m volumemanager.Mounted, name string) {
	if b.Durable && m.Path != "" {
		_ = os.Remove(filepath.Join(m.Path, name))
	}
}

func setUpAfterTearDown(b *bench) {
	b.stage()
	first := b.setUp(b.mount("pod-0"))
	before := b.look(first)
	b.tearDown(b.unmount("pod-0"))
	b.restart()
	b.stage()
	again := b.setUp(b.mount("pod-0"))
	require.Equal(b, first, again, "SetUp after TearDown returns the same")
	require.Equal(b, before, b.look(again), "SetUp after TearDown begins anew")
	b.tearDown(b.unmount("pod-0"))
	b.gone("pod-0")
	b.unstage()
}

func setUpOfManyPodsAtOnce(b *bench) {
	b.stage()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		uid := types.UID(fmt.Sprint("many-", i))
		m, u := b.mount(uid), b.unmount(uid)
		wg.Go(func() {
			for range 3 {
				if _, errs[i] = b.plugin.SetUp(b.Context(), m); errs[i] != nil {
					return
				}
				if errs[i] = b.plugin.TearDown(b.Context(), u); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(b, err, "calls for different pods run at once")
		b.gone(types.UID(fmt.Sprint("many-", i)))
	}
	b.unstage()
}

func setUpWithEndedContext(b *bench) {
	b.stage()
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	_, err := b.plugin.SetUp(ctx, b.mount("pod-1")) // SetUp may succeed: a plugin may ignore ctx
	b.Logf("SetUp with an ended context: %v", err)
	b.tearDown(b.unmount("pod-1"))
	b.gone("pod-1")
	b.unstage()
}
