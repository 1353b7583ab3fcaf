// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed without.txt
var withoutText string

// name is a test: its folder below the root, with slashes, and its function.
type name struct{ folder, test string }

func (n name) String() string { return n.folder + " " + n.test }

// collection has all tests named after issues, and the patches of these tests.
type collection struct {
	tests    []name
	exhibits []name          // tests with a patch
	without  map[name]string // reasons
	wrong    []string        // contradictions between tests, patches and without.txt
}

// patchOf returns the path of a test's patch.
func patchOf(root string, n name) string {
	return filepath.Join(root, filepath.FromSlash(n.folder), "testdata", "museum", n.test+".patch")
}

var function = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]*Upstream[0-9]+\w*)\(`)

// open finds tests and patches, and compares them with the list of tests without
// a patch.
func open(root, withoutText string) (*collection, error) {
	m := &collection{}
	var err error
	if m.without, err = parseWithout(withoutText); err != nil {
		return nil, err
	}
	var patches []name
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin") {
			return fs.SkipDir
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || d.IsDir() {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(rel))
		if owner, ok := strings.CutSuffix(folder, "/testdata/museum"); ok && filepath.Ext(path) == ".patch" {
			patches = append(patches, name{owner, strings.TrimSuffix(d.Name(), ".patch")})
		}
		if !strings.HasSuffix(path, "_test.go") || strings.Contains(folder, "testdata") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, f := range function.FindAllStringSubmatch(string(text), -1) {
			m.tests = append(m.tests, name{folder, f[1]})
		}
		return err
	})
	m.compare(patches)
	return m, err
}

func (m *collection) compare(patches []name) {
	complain := func(format string, args ...any) { m.wrong = append(m.wrong, fmt.Sprintf(format, args...)) }
	for _, n := range patches {
		if !slices.Contains(m.tests, n) {
			complain("%s has a patch, and there is no such test", n)
			continue
		}
		m.exhibits = append(m.exhibits, n)
		if m.without[n] != "" {
			complain("%s has a patch, and stands in tools/museum/without.txt", n)
		}
	}
	for _, n := range m.tests {
		if m.without[n] == "" && !slices.Contains(patches, n) {
			complain("%s has neither %s nor a reason in tools/museum/without.txt", n, patchOf("", n))
		}
	}
	for n := range m.without {
		if !slices.Contains(m.tests, n) {
			complain("%s stands in tools/museum/without.txt, and there is no such test", n)
		}
	}
	slices.SortFunc(m.exhibits, func(a, b name) int { return strings.Compare(a.String(), b.String()) })
	slices.Sort(m.wrong)
}

// parseWithout reads lines "FOLDER TEST: REASON".
func parseWithout(text string) (map[name]string, error) {
	list := map[name]string{}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		who, reason, ok := strings.Cut(line, ": ")
		folder, test, two := strings.Cut(who, " ")
		n := name{folder, test}
		if !ok || !two || strings.TrimSpace(reason) == "" || list[n] != "" {
			return nil, fmt.Errorf("tools/museum/without.txt:%d: want FOLDER TEST: REASON, once for each test, got %q", i+1, line)
		}
		list[n] = reason
	}
	return list, nil
}

var patched = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)

var errNoFiles = errors.New("it names no file")

// filesOf returns the files changed by a patch, relative to the root.
func filesOf(patch string) ([]string, error) {
	var files []string
	for _, f := range patched.FindAllStringSubmatch(patch, -1) {
		files = append(files, f[1])
	}
	if len(files) == 0 {
		return nil, errNoFiles
	}
	return files, nil
}
