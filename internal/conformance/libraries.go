// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"maps"
	"os/exec"
	"strings"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// hostProgram is a program of this machine with its shared libraries, for an image.
type hostProgram struct {
	file      containerdtest.Copy
	libraries map[string]containerdtest.Copy // by path
}

// program finds a program on PATH and its libraries.
func program(name string) (hostProgram, error) {
	file, err := exec.LookPath(name)
	if err != nil {
		return hostProgram{}, fmt.Errorf("an image needs %s: %w", name, err)
	}
	out, err := exec.Command("ldd", file).Output()
	if err != nil {
		return hostProgram{}, fmt.Errorf("ldd %s: %w", file, err)
	}
	p := hostProgram{containerdtest.Copy{From: file}, map[string]containerdtest.Copy{}}
	for _, library := range parseLdd(string(out)) {
		p.libraries[library] = containerdtest.Copy{From: library}
	}
	return p, nil
}

// hostPrograms are programs by name.
type hostPrograms map[string]hostProgram

// programs finds the named programs.
func programs(names ...string) (hostPrograms, error) {
	found := hostPrograms{}
	for _, name := range names {
		var err error
		if found[name], err = program(name); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// copyTo adds programs, by path in the image, to the Copies of an image.
func (p hostPrograms) copyTo(image *containerdtest.Image, names map[string]string) {
	for path, name := range names {
		image.Copies[path] = p[name].file
		maps.Copy(image.Copies, p[name].libraries)
	}
}

// parseLdd returns the paths in the output of ldd, where a line is "name => path (address)" or
// "path (address)". The kernel's library has no path.
func parseLdd(text string) []string {
	var paths []string
	for line := range strings.Lines(text) {
		for field := range strings.FieldsSeq(line) {
			if strings.HasPrefix(field, "/") {
				paths = append(paths, field)
			}
		}
	}
	return paths
}
