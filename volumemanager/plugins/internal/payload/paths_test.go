// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
	long := strings.Repeat("k", maxElement)
	tests := []struct {
		path, want string
		err        error
	}{
		{"a", "a", nil},
		{"a/b/c", "a/b/c", nil},
		{"./a//b/", "a/b", nil},
		{".hidden", ".hidden", nil},
		{"a/..b", "a/..b", nil},
		{"a...", "a...", nil},
		{long, long, nil},
		{"", "", ErrEmptyPath},
		{".", "", ErrNoFile},
		{"./", "", ErrNoFile},
		{"/etc/passwd", "", ErrAbsolute},
		{"..", "", ErrClimbs},
		{"../a", "", ErrClimbs},
		{"a/../b", "", ErrClimbs},
		{"a/..", "", ErrClimbs},
		{"..data", "", ErrReserved},
		{"..data/a", "", ErrReserved},
		{"./..data", "", ErrReserved},
		{"...", "", ErrReserved},
		{"a\x00b", "", ErrNUL},
		{long + "k", "", ErrTooLong},
		{"a/" + long + "k", "", ErrTooLong},
		{strings.Repeat("a/", maxPath/2) + "a", "", ErrTooLong},
		{strings.Repeat("k", 1<<20), "", ErrTooLong},
	}
	for _, tc := range tests {
		t.Run(Shown(tc.path), func(t *testing.T) {
			got, err := Clean(tc.path)
			assert.Equal(t, tc.want, got)
			require.ErrorIs(t, err, tc.err)
			if err != nil {
				assert.Less(t, len(err.Error()), 300, "a key of a mebibyte is not shown at full length")
			}
		})
	}
}

func TestPayloadCheck(t *testing.T) {
	tests := []struct {
		name  string
		paths []string
		err   error
	}{
		{"none", nil, nil},
		{"apart", []string{"a", "b/c", "b/d", "bc"}, nil},
		{"file and folder", []string{"a", "a/b"}, ErrInTheWay},
		{"file and folder deep down", []string{"x/a", "x/a/b/c/d"}, ErrInTheWay},
		{"climbs", []string{"a", "../b"}, ErrClimbs},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := Payload{}
			for _, at := range tc.paths {
				p[at] = File{}
			}
			require.ErrorIs(t, p.check(), tc.err)
		})
	}
}

// FuzzClean compares Clean with filepath.IsLocal of the standard library.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"a", "../a", "a/../../b", "/a", "..", "a/./b", "..data", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Clean(s)
		if err != nil {
			require.Empty(t, got)
			return
		}
		require.True(t, filepath.IsLocal(got), "%q became %q", s, got)
		require.False(t, strings.HasPrefix(got, ".."))
		require.NotContains(t, "/"+got+"/", "/../")
		again, err := Clean(got)
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func TestIsVersion(t *testing.T) {
	for name, want := range map[string]bool{
		"..2026_11_21_02_09_18.1804289383": true,
		"..2026_11_21_02_09_18.x":          true, // versions of the kubelet are swept too
		"..2026_11_21_02_09_18.":           false,
		"..2026_11_21_02_09_18":            false,
		"..2026_11_21_02_09_18./etc":       false,
		"..2026_13_21_02_09_18.1":          false,
		"2026_11_21_02_09_18.1":            false,
		"../../2026_11_21_02_09_18.1":      false,
		dataLink:                           false,
		tempLink:                           false,
		"..x":                              false,
		"":                                 false,
	} {
		assert.Equal(t, want, isVersion(name), name)
	}
}
