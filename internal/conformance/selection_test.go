// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// The committed lists are valid: each skip has a reason, and all names belong to the selection.
func TestLists(t *testing.T) {
	skips, err := parseSkips(skipsFile)
	require.NoError(t, err)
	chosen, left := regexp.MustCompile(selected), regexp.MustCompile(unselected)
	names := map[string]bool{}
	for _, one := range skips {
		assert.False(t, names[one.spec], "twice: %s", one.spec)
		names[one.spec] = true
		assert.Regexp(t, chosen, one.spec)
	}
	for _, spec := range lines(shortFile) {
		assert.False(t, names[spec], "twice, or skipped: %s", spec)
		names[spec] = true
		assert.Regexp(t, chosen, spec)
		assert.NotRegexp(t, left, spec)
	}
	skips, err = parseSkips(nodeSkipsFile)
	require.NoError(t, err)
	for _, one := range skips {
		assert.NotContains(t, lines(nodeSpecsFile), one.spec)
	}
	_, err = parseSkips("no reason\n")
	assert.ErrorContains(t, err, "want a reason, a tab and a spec")
}

// Flags narrow the selection, and the listed specs are skipped unless they are asked for.
func TestSelection(t *testing.T) {
	s, err := newSelection(options{})
	require.NoError(t, err)
	assert.Equal(t, selected, s.focus)
	skips, err := parseSkips(skipsFile)
	require.NoError(t, err)
	assert.Len(t, s.skip, 1+len(skips))

	s, err = newSelection(options{focus: "EmptyDir", listed: true})
	require.NoError(t, err)
	assert.Equal(t, selection{"EmptyDir", []string{unselected}}, s)

	s, err = newSelection(options{short: true})
	require.NoError(t, err)
	assert.Regexp(t, s.focus, "[sig-node] any prefix "+lines(shortFile)[0])

	s, err = newSelection(options{resources: true})
	require.NoError(t, err)
	assert.Regexp(t, s.focus, lines(resourcesFile)[0])
	assert.NotContains(t, s.skip, unselected, "some of them are [Serial]")

	s, err = newSelection(options{node: true})
	require.NoError(t, err)
	assert.Regexp(t, s.focus, lines(nodeSpecsFile)[0])
	assert.NotContains(t, s.skip, unselected, "most of them are [Serial]")
}

// A pattern matches the spec of the name, and no spec whose name goes on.
func TestExactly(t *testing.T) {
	pattern := regexp.MustCompile(anyOf([]string{"[sig-node] a (b)", "[sig-node] c"}))
	assert.True(t, pattern.MatchString("[sig-node] a (b)"))
	assert.False(t, pattern.MatchString("[sig-node] a (b) [Slow]"))
	assert.False(t, pattern.MatchString("s a b"))
}

// Images get all names that the suite has for them, but none of a registry that must refuse.
func TestNameImages(t *testing.T) {
	images := nameImages(map[string]containerdtest.Image{"agnhost": {User: "1"}, "busybox": {User: "2"}, "none": {}}, []string{
		"registry.k8s.io/e2e-test-images/agnhost:2.63.0", "registry.k8s.io/e2e-test-images/agnhost:2.55",
		"gcr.io/k8s-authenticated-test/agnhost:2.6", "registry.k8s.io/e2e-test-images/busybox:1", "registry.k8s.io/e2e-test-images/perl:5",
		"registry.k8s.io/e2e-test-images/busybox:1",
	})
	assert.Equal(t, []containerdtest.Image{
		{User: "1", Name: "registry.k8s.io/e2e-test-images/agnhost:2.55", Aliases: []string{"registry.k8s.io/e2e-test-images/agnhost:2.63.0"}},
		{User: "2", Name: "registry.k8s.io/e2e-test-images/busybox:1", Aliases: []string{}},
	}, images)
}

// The libraries of a program are the absolute paths in the output of ldd.
func TestParseLdd(t *testing.T) {
	assert.Equal(t, []string{"/lib/libc.so.6", "/lib64/ld-linux.so.2"}, parseLdd(
		"\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld-linux.so.2 (0x3)\n"))
	assert.Empty(t, parseLdd("\tstatically linked\n"))
}
