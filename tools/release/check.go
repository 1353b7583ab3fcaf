// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// tree is the state of a work tree that matters for a release.
type tree struct {
	branch    string   // empty in a detached head
	changes   []string // lines of git status
	tags      []string
	changelog string
}

// Versions are those of Go modules, without build metadata.
var versionPattern = regexp.MustCompile(`^v0\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// refusals returns the reasons why version must not be released from t. Without
// reasons the version may be released.
func refusals(version string, t tree) []string {
	var out []string
	if !versionPattern.MatchString(version) {
		out = append(out, fmt.Sprintf("VERSION=%q is no version of this module: give one as VERSION=v0.37.0", version))
	}
	if t.branch != "main" {
		out = append(out, fmt.Sprintf("the branch is %q: releases are made on main", t.branch))
	}
	if len(t.changes) > 0 {
		out = append(out, "commit or remove these changes first:\n  "+strings.Join(t.changes, "\n  "))
	}
	if slices.Contains(t.tags, version) {
		out = append(out, fmt.Sprintf("the tag %s exists: choose the next version", version))
	}
	if !hasVersion(t.changelog, version) {
		out = append(out, fmt.Sprintf("CHANGELOG.md has no section %q with entries: move the entries of \"## Unreleased\" there",
			"## "+version))
	}
	return out
}

// hasVersion reports whether changelog has a section of version with an entry.
func hasVersion(changelog, version string) bool {
	inside := false
	for line := range strings.Lines(changelog) {
		title, isTitle := strings.CutPrefix(line, "## ")
		switch fields := strings.Fields(title); {
		case isTitle:
			inside = len(fields) > 0 && fields[0] == version
		case inside && strings.HasPrefix(line, "- "):
			return true
		}
	}
	return false
}

// readTree reads the work tree of the working directory.
func readTree() (tree, error) {
	var t tree
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return t, fmt.Errorf("release: run in the repository's root: %w", err)
	}
	t.changelog = string(changelog)
	branch, err := git("branch", "--show-current")
	if err != nil {
		return t, err
	}
	t.branch = strings.Join(branch, "")
	if t.changes, err = git("status", "--porcelain"); err != nil {
		return t, err
	}
	t.tags, err = git("tag", "--list")
	return t, err
}

// git returns the lines of a git command's output.
func git(args ...string) ([]string, error) {
	cmd := exec.Command("git", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("release: git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	if len(out) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), nil
}
