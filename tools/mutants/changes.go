// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// changes are the changed lines of each file below the root.
type changes map[string]map[int]bool

// newChanges asks git for the differences between the common ancestor with a
// branch and the working tree. Untracked files count as changed completely.
func newChanges(root, branch string) (changes, error) {
	git := func(args ...string) (string, error) {
		c := exec.Command("git", args...)
		c.Dir = root
		out, err := c.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return string(out), nil
	}
	base, err := git("merge-base", branch, "HEAD")
	if err != nil {
		return nil, err
	}
	diff, err := git("diff", "-U0", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/", strings.TrimSpace(base), "--", "*.go")
	if err != nil {
		return nil, err
	}
	unknown, err := git("ls-files", "--others", "--exclude-standard", "--", "*.go")
	if err != nil {
		return nil, err
	}
	c := parseDiff(diff)
	for _, file := range strings.Fields(unknown) {
		c[file] = nil
	}
	return c, nil
}

var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// parseDiff returns the lines that a diff without context adds.
func parseDiff(diff string) changes {
	c, file := changes{}, ""
	for line := range strings.SplitSeq(diff, "\n") {
		if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			file = name
			c[file] = map[int]bool{}
		}
		h := hunk.FindStringSubmatch(line)
		if h == nil {
			continue
		}
		first, _ := strconv.Atoi(h[1])
		count := 1
		if h[2] != "" {
			count, _ = strconv.Atoi(h[2])
		}
		for i := range count {
			c[file][first+i] = true
		}
	}
	return c
}

// folders returns the folders of the root's module with changed code. Tests and
// test data do not count.
func (c changes) folders(root string) []string {
	var list []string
	for file := range c {
		if !strings.HasSuffix(file, "_test.go") && !strings.Contains("/"+file, "/testdata/") && inModule(root, path.Dir(file)) {
			list = append(list, path.Dir(file))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// inModule reports whether the folder has Go files, and neither the folder nor a
// folder between the folder and the root has a go.mod.
func inModule(root, folder string) bool {
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil || len(files) == 0 {
		return false
	}
	for ; folder != "."; folder = path.Dir(folder) {
		if _, err := os.Stat(filepath.Join(root, folder, "go.mod")); err == nil {
			return false
		}
	}
	return true
}

// touch reports whether m changes a changed line.
func (c changes) touch(m *mutant) bool {
	lines, known := c[path.Join(m.pkg, m.file)]
	if !known || lines == nil {
		return known
	}
	for line := m.line; line <= m.end; line++ {
		if lines[line] {
			return true
		}
	}
	return false
}
