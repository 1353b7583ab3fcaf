// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// member is a member of a layer. The header's Size is that of the content.
type member struct {
	tar.Header
	content string
}

func file(name, content string) member {
	return member{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, content}
}

func folder(name string) member {
	return member{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}, ""}
}

func link(name, target string) member {
	return member{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}, ""}
}

func hardlink(name, target string) member {
	return member{tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}, ""}
}

// tarball returns an uncompressed layer. Files belong to the user of the test.
func tarball(t testing.TB, members ...member) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range members {
		m.Size = int64(len(m.content))
		if m.Uid == 0 {
			m.Uid, m.Gid = os.Getuid(), os.Getgid()
		}
		require.NoError(t, w.WriteHeader(&m.Header), m.Name)
		_, err := io.WriteString(w, m.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func openRoot(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

// rootfs unpacks layers into a folder of their own, and returns its path.
func rootfs(t testing.TB, layers ...[]byte) (string, error) {
	t.Helper()
	top := t.TempDir()
	store := openRoot(t, top)
	files := newTree(1000)
	b := builder{store: store, root: "rootfs"}
	for i, raw := range layers {
		name := string(rune('a' + i))
		require.NoError(t, store.Mkdir(name, 0o700))
		l, err := unpack(t.Context(), openRoot(t, filepath.Join(top, name)), bytes.NewReader(raw), digestOf(raw), &budget{1 << 20, 1000})
		if err == nil {
			err = files.apply(i, l.Entries)
		}
		if err != nil {
			return "", err
		}
		b.from = append(b.from, name)
	}
	require.NoError(t, store.Mkdir("rootfs", 0o700))
	return filepath.Join(top, "rootfs"), b.build(openRoot(t, filepath.Join(top, "rootfs")), "", files.root)
}

func TestRootfs(t *testing.T) {
	modified := time.Date(2020, 2, 2, 2, 2, 2, 0, time.UTC)
	su := file("bin/su", "root shell")
	su.Mode, su.ModTime = 0o6755, modified
	closed := folder("closed")
	closed.Mode = 0
	secret := file("closed/secret", "x")
	secret.Mode = 0
	dir, err := rootfs(t,
		tarball(t, folder("bin"), su, hardlink("bin/sh", "bin/su"), file("etc/old", "1"), link("var/run", "/run"),
			member{tar.Header{Name: "dev/sda", Typeflag: tar.TypeBlock, Devmajor: 8}, ""}),
		tarball(t, file("etc/.wh.old", ""), file("etc/new", "2"), file("var/run/pid", "3"), closed, secret),
	)
	require.NoError(t, err)
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(raw)
	}
	assert.Equal(t, []string{"root shell", "root shell", "2", "3", "x"},
		[]string{read("bin/su"), read("bin/sh"), read("etc/new"), read("run/pid"), read("closed/secret")})
	assert.NoFileExists(t, filepath.Join(dir, "etc/old"))
	assert.NoFileExists(t, filepath.Join(dir, "dev/sda"))
	info, err := os.Stat(filepath.Join(dir, "bin/su"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o755), info.Mode(), "no setuid")
	assert.True(t, modified.Equal(info.ModTime()))
	sh, err := os.Stat(filepath.Join(dir, "bin/sh"))
	require.NoError(t, err)
	assert.True(t, os.SameFile(info, sh))
	target, err := os.Readlink(filepath.Join(dir, "var/run"))
	require.NoError(t, err)
	assert.Equal(t, "/run", target)
}

// TestHostileLayers unpacks layers that try to reach files of the host. Each is refused, or reaches
// only files below the image's root.
func TestHostileLayers(t *testing.T) {
	victim := t.TempDir()
	secret := filepath.Join(victim, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("untouched"), 0o600))
	up := strings.Repeat("../", 30)
	for name, tc := range map[string]struct {
		layers [][]member
		err    string
	}{
		"path with ..":                     {[][]member{{file(up+secret, "evil")}}, `contains ".."`},
		"absolute path":                    {[][]member{{file(secret, "evil")}}, ""},
		"through an absolute link":         {[][]member{{link("a", victim), file("a/secret", "evil")}}, ""},
		"through a relative link":          {[][]member{{link("a", up+victim), file("a/secret", "evil")}}, ""},
		"through a link of a lower layer":  {[][]member{{link("a", victim)}, {file("a/secret", "evil")}}, ""},
		"whiteout through a link":          {[][]member{{link("a", victim)}, {file("a/.wh.secret", "")}}, ""},
		"opaque folder through a link":     {[][]member{{link("a", victim)}, {file("a/.wh..wh..opq", "")}}, ""},
		"hard link to the host":            {[][]member{{hardlink("a", secret)}}, "not a file of the image"},
		"hard link with ..":                {[][]member{{hardlink("a", up+secret)}}, `contains ".."`},
		"hard link through a link":         {[][]member{{link("a", victim), hardlink("b", "a/secret")}}, "not a file of the image"},
		"write through a hard link's link": {[][]member{{link("a", secret), hardlink("b", "a"), file("b", "evil")}}, ""},
		"folder over a link":               {[][]member{{link("a", victim), folder("a"), file("a/secret", "evil")}}, ""},
		"link for a whiteout":              {[][]member{{link(".wh.a", victim)}}, ""},
		"device":                           {[][]member{{member{tar.Header{Name: "sda", Typeflag: tar.TypeBlock, Devmajor: 8}, ""}}}, ""},
		"fifo":                             {[][]member{{member{tar.Header{Name: "fifo", Typeflag: tar.TypeFifo}, ""}}}, ""},
		"name of the layer's own files":    {[][]member{{file(entriesFile, "evil"), file(contentsName+"/0", "evil"), file("../"+entriesFile+"x", "")}}, `contains ".."`},
		"many files":                       {[][]member{make([]member, 1001)}, "too many files"},
		"big file":                         {[][]member{{file("a", strings.Repeat("a", 1<<20))}}, "too big"},
	} {
		t.Run(name, func(t *testing.T) {
			var raw [][]byte
			for _, members := range tc.layers {
				for i := range members {
					if members[i].Name == "" {
						members[i] = file("same", "")
					}
				}
				raw = append(raw, tarball(t, members...))
			}
			dir, err := rootfs(t, raw...)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
			} else {
				require.NoError(t, err)
				checkTame(t, dir)
			}
			content, err := os.ReadFile(secret)
			require.NoError(t, err)
			assert.Equal(t, "untouched", string(content))
			found, err := os.ReadDir(victim)
			require.NoError(t, err)
			assert.Len(t, found, 1)
		})
	}
}

// checkTame checks that a tree has only folders, files without setuid, and symbolic links.
func checkTame(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		odd := info.Mode() & (fs.ModeSetuid | fs.ModeSetgid | fs.ModeDevice | fs.ModeNamedPipe | fs.ModeSocket | fs.ModeIrregular)
		assert.Zero(t, odd, p)
		return nil
	}))
}

// A layer of a few kilobytes is not unpacked to more than the budget, which all layers share.
func TestBomb(t *testing.T) {
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	w := tar.NewWriter(zip)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: 1 << 40, Mode: 0o644}))
	zeros := make([]byte, 1<<20)
	for range 16 {
		_, err := w.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, zip.Close())
	require.Less(t, bomb.Len(), 64<<10)
	in, err := gzip.NewReader(&bomb)
	require.NoError(t, err)
	dir := t.TempDir()
	_, err = unpack(t.Context(), openRoot(t, dir), in, "", &budget{4 << 20, 10})
	require.ErrorIs(t, err, errTooBig)
	var written int64
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, _ error) error {
		info, err := d.Info()
		written += info.Size()
		return err
	}))
	assert.Less(t, written, int64(5<<20))
}

func TestLayerIsChecked(t *testing.T) {
	raw := tarball(t, file("a", "content"))
	try := func(ctx context.Context, raw []byte, digest string) error {
		_, err := unpack(ctx, openRoot(t, t.TempDir()), bytes.NewReader(raw), digest, &budget{1 << 20, 10})
		return err
	}
	require.NoError(t, try(t.Context(), raw, digestOf(raw)))
	require.ErrorContains(t, try(t.Context(), raw, digestOf(nil)), "its content has the digest "+digestOf(raw))
	longer := append(bytes.Clone(raw), 1)
	require.ErrorContains(t, try(t.Context(), longer, digestOf(raw)), "has the digest", "bytes behind the end count")
	require.ErrorIs(t, try(t.Context(), raw[:515], digestOf(raw)), io.ErrUnexpectedEOF)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	require.ErrorIs(t, try(ctx, raw, digestOf(raw)), cause)
}

// FuzzUnpack: whatever is in a layer, the tree is tame, and each file is below the root.
func FuzzUnpack(f *testing.F) {
	f.Add(tarball(f, folder("a"), file("a/b", "c"), link("l", "../.."), hardlink("h", "a/b"), file(".wh.x", "")))
	f.Add(tarball(f, file("a", ""), file("a/b", "")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if dir, err := rootfs(t, raw); err == nil {
			checkTame(t, dir)
		}
	})
}
