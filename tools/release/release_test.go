// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// TestRefusals gives each reason to refuse a release, alone.
func TestRefusals(t *testing.T) {
	good := tree{branch: "main", tags: []string{"v0.36.0"}, changelog: "# Changelog\n\n## Unreleased\n\n## v0.37.0 - 2026-12-01\n\n### prober\n- Added: x.\n"}
	with := func(change func(*tree)) tree { t := good; change(&t); return t }
	tests := []struct {
		name, version string
		tree          tree
		want          string // part of the only reason; "" for none
	}{
		{"good", "v0.37.0", good, ""},
		{"no version", "", good, `VERSION="" is no version`},
		{"two numbers", "v0.37", good, `VERSION="v0.37" is no version`},
		{"another branch", "v0.37.0", with(func(t *tree) { t.branch = "next" }), "releases are made on main"},
		{"a change", "v0.37.0", with(func(t *tree) { t.changes = []string{" M go.mod"} }), " M go.mod"},
		{"the tag exists", "v0.37.0", with(func(t *tree) { t.tags = []string{"v0.37.0"} }), "the tag v0.37.0 exists"},
		{"only unreleased entries", "v0.37.0", with(func(t *tree) { t.changelog = "## Unreleased\n- Added: x.\n" }), "no section"},
		{"an empty section", "v0.37.0", with(func(t *tree) { t.changelog = "## v0.37.0\n\n## v0.36.0\n- Added: x.\n" }), "no section"},
		{"a longer version", "v0.37.0", with(func(t *tree) { t.changelog = "## v0.37.01\n- Added: x.\n" }), "no section"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := refusals(tc.version, tc.tree)
			if tc.version != "v0.37.0" && len(got) > 0 {
				got = got[:1] // no section has the name of a wrong version
			}
			if all := strings.Join(got, "\n"); len(got) > 1 || (tc.want == "") != (len(got) == 0) || !strings.Contains(all, tc.want) {
				t.Errorf("refusals: %q, want %q", got, tc.want)
			}
		})
	}
}

// TestReadTree reads a repository with one commit, a tag and a new file.
func TestReadTree(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "CHANGELOG.md", "## Unreleased\n", 0o644)
	for _, args := range []string{"init -q -b main", "add .", "-c user.name=t -c user.email=t@t.invalid commit -q -m x", "tag v0.1.0"} {
		if out, err := exec.Command("git", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	write(t, "new", "", 0o644)
	got, err := readTree()
	if want := (tree{"main", []string{"?? new"}, []string{"v0.1.0"}, "## Unreleased\n"}); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("readTree: %v, %v, want %v", got, err, want)
	}
}

// TestPack packs this test's own program twice.
func TestPack(t *testing.T) {
	first, second := packSelf(t), packSelf(t)
	const archive = "agent_v0.1.0_linux_amd64.tar.gz"
	if !bytes.Equal(read(t, first, archive), read(t, second, archive)) {
		t.Error("two archives of the same files differ")
	}
	zipped, err := gzip.NewReader(bytes.NewReader(read(t, first, archive)))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, fmt.Sprintf("%s %o", h.Name, h.Mode))
	}
	const top = "agent_v0.1.0_linux_amd64/"
	if want := []string{top + "LICENSE 644", top + "agent 755"}; fmt.Sprint(files) != fmt.Sprint(want) {
		t.Errorf("files of the archive: %q, want %q", files, want)
	}
	var want string
	for _, name := range []string{"agent_v0.1.0_linux_amd64.cdx.json", archive} {
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256(read(t, first, name)), name)
	}
	if got := string(read(t, first, "SHA256SUMS")); got != want {
		t.Errorf("SHA256SUMS:\n%s\nwant:\n%s", got, want)
	}

	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, first, "agent_v0.1.0_linux_amd64.cdx.json")), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, c := range *bom.Components {
		found[c.Name] = c.Version != "" && strings.HasSuffix(c.PackageURL, "@"+c.Version)
	}
	if !found["std"] || !found["github.com/CycloneDX/cyclonedx-go"] {
		t.Errorf("the SBOM lacks the standard library or a module that is linked: %v", found)
	}
}

// TestPackNothing refuses folders without a program: a release without its SBOM.
func TestPackNothing(t *testing.T) {
	dir := t.TempDir()
	if err := packAll(dir, "v0.1.0"); err == nil || !strings.Contains(err.Error(), "nothing to pack") {
		t.Errorf("an empty folder: %v", err)
	}
	write(t, filepath.Join(dir, "agent_linux_arm", "LICENSE"), "terms", 0o644)
	if err := packAll(dir, "v0.1.0"); err == nil || !strings.Contains(err.Error(), "no Go program") {
		t.Errorf("a folder without a program: %v", err)
	}
}

// packSelf packs the program of this test and a text file, and returns the
// folder.
func packSelf(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "agent_linux_amd64", "agent"), string(program), 0o700)
	write(t, filepath.Join(dir, "agent_linux_amd64", "LICENSE"), "terms", 0o600)
	if err := packAll(dir, "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), mode)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
