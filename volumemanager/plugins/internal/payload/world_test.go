// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// volume is a folder under test.
type volume struct {
	t    *testing.T
	dir  string
	root *os.Root
}

func newVolume(t *testing.T) *volume { return volumeAt(t, t.TempDir()) }

func volumeAt(t *testing.T, dir string) *volume {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return &volume{t, dir, root}
}

func (v *volume) write(p Payload, o Options) bool {
	v.t.Helper()
	changed, err := Write(v.t.Context(), v.root, p, o)
	require.NoError(v.t, err)
	return changed
}

// seen returns the files that a container sees: contents by path, read through the links.
func (v *volume) seen() map[string]string { return seenIn(v.t, v.dir) }

func seenIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		top, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // a link of a removed key
		}
		require.NoError(t, filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(p)
			rel, _ := filepath.Rel(top, p)
			out[filepath.ToSlash(filepath.Join(e.Name(), rel))] = string(data)
			return err
		}))
	}
	return out
}

// names returns all names at the top of the volume; versions are replaced by "..V".
func (v *volume) names() []string {
	v.t.Helper()
	entries, err := os.ReadDir(v.dir)
	require.NoError(v.t, err)
	var out []string
	for _, e := range entries {
		if isVersion(e.Name()) {
			out = append(out, "..V")
		} else {
			out = append(out, e.Name())
		}
	}
	return out
}

// of returns a payload from path, content, path, content…
func of(pairs ...string) Payload {
	p := Payload{}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = File{Data: []byte(pairs[i+1]), Mode: 0o644}
	}
	return p
}

func texts(p Payload) map[string]string {
	out := map[string]string{}
	for at, f := range p {
		out[at] = string(f.Data)
	}
	return out
}
