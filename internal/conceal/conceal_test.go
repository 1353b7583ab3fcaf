// SPDX-License-Identifier: Apache-2.0

package conceal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/conceal"
)

func TestText(t *testing.T) {
	var v conceal.Values
	v.Variable("TOKEN", "hunter22")
	v.Variable("LONGER", "hunter22-and-more")
	v.Variable("SHORT", "abc")
	v.Variable("EMPTY", "")
	v.Variable("LINES", "one\ntwo")
	v.Secret("pa55word")
	v.Secret("pw")
	v.Expanded("/bin/$(SHORT)", "/bin/abc")
	v.Expanded("plain", "plain")
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"nothing to conceal", "no such file", "no such file"},
		{"a value", "exec hunter22: no such file", "exec $(TOKEN): no such file"},
		{"a credential", "user:pa55word is wrong", "user:(hidden) is wrong"},
		{"a short credential stays", "pw", "pw"},
		{"twice", "hunter22 hunter22", "$(TOKEN) $(TOKEN)"},
		{"the longer value wins", "x hunter22-and-more", "x $(LONGER)"},
		{"a short value stays", "abc", "abc"},
		{"a short value goes with its word", `exec "/bin/abc"`, `exec "/bin/$(SHORT)"`},
		{"a word without references stays", "plain", "plain"},
		{"raw lines", "one\ntwo", "$(LINES)"},
		{"quoted lines", fmt.Sprintf("%q", "one\ntwo"), `"$(LINES)"`},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, v.Text(tt.in)) })
	}
}

func TestError(t *testing.T) {
	var v conceal.Values
	require.NoError(t, v.Error(nil))
	plain := errors.New("plain")
	assert.Same(t, plain, v.Error(plain))
	v.Variable("TOKEN", "hunter22")
	assert.Same(t, plain, v.Error(plain), "an error without values is the error itself")
	err := v.Error(&fs.PathError{Op: "open", Path: "/hunter22", Err: fs.ErrNotExist})
	assert.Equal(t, "open /$(TOKEN): file does not exist", err.Error())
	require.ErrorIs(t, err, fs.ErrNotExist)
	var path *fs.PathError
	assert.ErrorAs(t, err, &path)
}

// FuzzText checks that no value is left, in any surrounding text, unless the replacement of another
// value contains the value.
func FuzzText(f *testing.F) {
	f.Add("before ", " after", "hunter22", "hunter2200")
	f.Add("hunter", "2", "hunter22", "22hu")
	f.Fuzz(func(t *testing.T, before, after, a, b string) {
		var v conceal.Values
		v.Variable("A", a)
		v.Variable("B", b)
		out := v.Text(before + a + after + b)
		for _, value := range []string{a, b} {
			if len(value) < 4 || strings.ContainsAny(value, "$()AB") || overlaps(before+after, a, b) {
				continue
			}
			if strings.Contains(out, value) {
				t.Errorf("%q is in %q", value, out)
			}
		}
	})
}

// overlaps reports whether parts of one value, or of the text around, could join to a value.
func overlaps(around, a, b string) bool {
	for _, value := range []string{a, b} {
		for _, other := range []string{around, a, b} {
			if other != value && value != "" && strings.ContainsAny(other, value) {
				return true
			}
		}
	}
	return false
}
