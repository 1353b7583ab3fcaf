// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

//go:embed hooks.go.txt
var hooks string

// tags are the build tags of the Makefile.
const tags = "-tags=grpcnotrace"

// instrumented is a package that contains all its mutants.
type instrumented struct {
	folder  string // below the repository's root, with slashes
	root    string
	work    string // directory for the written files
	name    string
	sources []*source
	replace map[string]string // from files of the package to their replacements
	overlay string            // file for go's -overlay
}

// load returns the packages of the folders, with syntax and types.
func load(root string, folders []string) ([]*packages.Package, error) {
	patterns := make([]string, len(folders))
	for i, f := range folders {
		patterns[i] = "./" + f
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedModule,
		Dir: root, BuildFlags: []string{tags},
	}, patterns...)
	if err != nil {
		return nil, err
	}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, e)
		}
	}
	return pkgs, nil
}

// instrument finds all mutants of pkg. Their ids begin at firstID.
func instrument(root, work string, pkg *packages.Package, firstID int) (*instrumented, error) {
	folder, err := filepath.Rel(root, filepath.Dir(pkg.GoFiles[0]))
	if err != nil {
		return nil, err
	}
	p := &instrumented{folder: filepath.ToSlash(folder), root: root, work: work, name: pkg.Name}
	id := firstID
	for i, file := range pkg.Syntax {
		text, err := os.ReadFile(pkg.CompiledGoFiles[i])
		if err != nil {
			return nil, err
		}
		s := generate(pkg, file, p.folder, pkg.CompiledGoFiles[i], text, id)
		id += len(s.mutants)
		p.sources = append(p.sources, s)
	}
	number(p.mutants())
	return p, nil
}

func (p *instrumented) mutants() []*mutant {
	var all []*mutant
	for _, s := range p.sources {
		all = append(all, s.mutants...)
	}
	return all
}

// write writes the overlay: each source with its mutants, and the hooks.
func (p *instrumented) write() error {
	p.replace = map[string]string{}
	put := func(path string, text []byte) error {
		p.replace[path] = filepath.Join(p.work, filepath.Base(path))
		return os.WriteFile(p.replace[path], text, 0o644)
	}
	for _, s := range p.sources {
		if len(s.sites) > 0 {
			if err := put(s.path, render(s.text, s.sites)); err != nil {
				return err
			}
		}
	}
	text := strings.Replace(hooks, "PACKAGE", p.name, 1)
	if err := put(filepath.Join(p.root, filepath.FromSlash(p.folder), "zz_mutants.go"), []byte(text)); err != nil {
		return err
	}
	p.overlay = filepath.Join(p.work, "overlay.json")
	return writeOverlay(p.overlay, p.replace)
}

// writeOverlay writes a file for go's -overlay.
func writeOverlay(path string, replace map[string]string) error {
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(path, list, 0o644)
}

// complaint is a line of the compiler's output.
var complaint = regexp.MustCompile(`(?m)^(?:\./|.*/)?([^/\s]+\.go):(\d+):\d+: `)

// build compiles the package with its mutants, leaves out faults that do not
// compile, and returns the number of faults left out.
func (p *instrumented) build() (dropped int, err error) {
	before := len(p.mutants())
	for range 20 {
		if err := p.write(); err != nil {
			return 0, err
		}
		out, err := p.goCommand("build", "-overlay", p.overlay, "-gcflags=-e", "./"+p.folder).CombinedOutput()
		if err == nil {
			return before - len(p.mutants()), nil
		}
		if !p.dropWrong(string(out)) {
			return 0, fmt.Errorf("%s with mutants does not compile: %w\n%s", p.folder, err, out)
		}
	}
	return 0, errors.New(p.folder + " with mutants does not compile, whatever is taken out")
}

// dropWrong removes the sites that the compiler complains of.
func (p *instrumented) dropWrong(output string) bool {
	found := false
	for _, c := range complaint.FindAllStringSubmatch(output, -1) {
		line, _ := strconv.Atoi(c[2])
		for _, s := range p.sources {
			if filepath.Base(s.path) != c[1] {
				continue
			}
			before := s.sites
			s.sites = drop(slices.Clone(s.sites), line)
			found = found || len(s.sites) < len(before)
			s.mutants = nil
			for _, site := range s.sites {
				s.mutants = append(s.mutants, site.mutants...)
			}
		}
	}
	return found
}

// goCommand returns a call of the go command at the root.
func (p *instrumented) goCommand(verb string, args ...string) *exec.Cmd {
	c := exec.Command("go", append([]string{verb, tags}, args...)...)
	c.Dir = p.root
	return c
}
