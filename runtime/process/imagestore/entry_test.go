// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"archive/tar"
	"io/fs"
	"math"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	long := strings.Repeat("a/", maxDepth+1) + "a"
	for name, tc := range map[string]struct {
		h    tar.Header
		want entry
		skip bool
		err  string
	}{
		"folder":              {h: tar.Header{Name: "./etc/", Typeflag: tar.TypeDir, Mode: 0o555}, want: entry{Path: "etc", Kind: kindFolder, Mode: 0o755}},
		"sticky folder":       {h: tar.Header{Name: "tmp", Typeflag: tar.TypeDir, Mode: 0o1777}, want: entry{Path: "tmp", Kind: kindFolder, Mode: 0o777 | fs.ModeSticky}},
		"root":                {h: tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, want: entry{Kind: kindFolder, Mode: 0o755}},
		"file":                {h: tar.Header{Name: "a//b", Typeflag: tar.TypeReg, Mode: 0o044, Uid: 7, Gid: 8}, want: entry{Path: "a/b", Kind: kindFile, Mode: 0o444, UID: 7, GID: 8}},
		"absolute":            {h: tar.Header{Name: "/etc/passwd", Typeflag: tar.TypeReg}, want: entry{Path: "etc/passwd", Kind: kindFile, Mode: 0o400}},
		"setuid":              {h: tar.Header{Name: "su", Typeflag: tar.TypeReg, Mode: 0o6755}, want: entry{Path: "su", Kind: kindFile, Mode: 0o755}},
		"setgid folder":       {h: tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o2755}, want: entry{Path: "d", Kind: kindFolder, Mode: 0o755}},
		"link that leads out": {h: tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../../etc"}, want: entry{Path: "l", Kind: kindSymlink, Link: "../../etc"}},
		"hard link":           {h: tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "/bin/busybox"}, want: entry{Path: "h", Kind: kindHardlink, Link: "bin/busybox"}},
		"whiteout":            {h: tar.Header{Name: "a/.wh.b", Typeflag: tar.TypeReg}, want: entry{Path: "a/b", Kind: kindWhiteout}},
		"whiteout at root":    {h: tar.Header{Name: ".wh.b", Typeflag: tar.TypeReg}, want: entry{Path: "b", Kind: kindWhiteout}},
		"opaque":              {h: tar.Header{Name: "a/.wh..wh..opq", Typeflag: tar.TypeReg}, want: entry{Path: "a", Kind: kindOpaque}},
		"opaque root":         {h: tar.Header{Name: ".wh..wh..opq", Typeflag: tar.TypeReg}, want: entry{Kind: kindOpaque}},

		"device":         {h: tar.Header{Name: "dev/sda", Typeflag: tar.TypeBlock}, skip: true},
		"console":        {h: tar.Header{Name: "dev/console", Typeflag: tar.TypeChar}, skip: true},
		"fifo":           {h: tar.Header{Name: "run/initctl", Typeflag: tar.TypeFifo}, skip: true},
		"global header":  {h: tar.Header{Name: "../x", Typeflag: tar.TypeXGlobalHeader}, skip: true},
		"auxiliary file": {h: tar.Header{Name: ".wh..wh.plnk", Typeflag: tar.TypeDir}, skip: true},

		"parent":                {h: tar.Header{Name: "../etc/passwd", Typeflag: tar.TypeReg}, err: `contains ".."`},
		"parent in the middle":  {h: tar.Header{Name: "a/../../x", Typeflag: tar.TypeDir}, err: `contains ".."`},
		"harmless parent":       {h: tar.Header{Name: "a/../b", Typeflag: tar.TypeReg}, err: `contains ".."`},
		"hard link out":         {h: tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "../../etc/shadow"}, err: `contains ".."`},
		"NUL":                   {h: tar.Header{Name: "a\x00b", Typeflag: tar.TypeReg}, err: "NUL"},
		"NUL in a link":         {h: tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b\x00"}, err: "no file can be"},
		"empty link":            {h: tar.Header{Name: "a", Typeflag: tar.TypeSymlink}, err: "no file can be"},
		"long element":          {h: tar.Header{Name: strings.Repeat("a", 256), Typeflag: tar.TypeReg}, err: "longer than 255"},
		"deep":                  {h: tar.Header{Name: long, Typeflag: tar.TypeReg}, err: "more than 255 elements"},
		"file as root":          {h: tar.Header{Name: ".", Typeflag: tar.TypeReg}, err: "root is not a folder"},
		"whiteout of the root":  {h: tar.Header{Name: ".wh..", Typeflag: tar.TypeReg}, err: "no such file"},
		"whiteout of a parent":  {h: tar.Header{Name: "a/.wh...", Typeflag: tar.TypeReg}, err: "no such file"},
		"whiteout of no name":   {h: tar.Header{Name: "a/.wh.", Typeflag: tar.TypeReg}, err: "no such file"},
		"unknown type":          {h: tar.Header{Name: "a", Typeflag: 'Z'}, err: "not known"},
		"owner below all users": {h: tar.Header{Name: "a", Typeflag: tar.TypeReg, Uid: -1}, err: "belongs to -1"},
		"owner above all users": {h: tar.Header{Name: "a", Typeflag: tar.TypeReg, Gid: math.MaxInt}, err: "belongs to 0:"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok, err := classify(&tc.h)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, !tc.skip, ok)
			if ok {
				assert.Equal(t, tc.want, got)
			}
		})
	}
}

// FuzzCleanPath: a clean path stays clean, and names a place below the root.
func FuzzCleanPath(f *testing.F) {
	f.Add("a/../b")
	f.Add("/./a//b/")
	f.Add("...")
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := cleanPath(name)
		if err != nil {
			return
		}
		require.Equal(t, strings.TrimPrefix(path.Clean("/"+name), "/"), clean)
		require.True(t, clean == "" || fs.ValidPath(clean) || !strings.ContainsAny(clean, "\x00"))
		again, err := cleanPath(clean)
		require.NoError(t, err)
		require.Equal(t, clean, again)
	})
}
