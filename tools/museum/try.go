// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// result is the outcome of a test with the fault put in. A nil error means that
// the test failed, as expected.
type result struct {
	name
	err error
}

// try puts in the fault of each chosen test, and runs the test. Faults of one
// package follow each other, so that the compiler's cache helps.
func (m *collection) try(root string, chosen *regexp.Regexp, workers int) []result {
	var results []result
	for _, n := range m.exhibits {
		if chosen.MatchString(n.String()) {
			results = append(results, result{name: n})
		}
	}
	next := make(chan *result)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for r := range next {
				if r.err = tryOne(root, r.name); r.err != nil {
					fmt.Printf("%s: %v\n", r.name, r.err)
				}
			}
		})
	}
	for i := range results {
		next <- &results[i]
	}
	close(next)
	wg.Wait()
	return results
}

var (
	errApply   = errors.New("its patch does not apply any more: make one anew that puts the fault in")
	errCompile = errors.New("its patch does not compile")
	errGreen   = errors.New("it passes with the fault put in")
	errSkipped = errors.New("it is skipped on this machine")
)

func tryOne(root string, n name) error {
	work, err := os.MkdirTemp("", "museum")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	overlay, err := apply(root, work, n)
	if err != nil {
		return err
	}
	binary := filepath.Join(work, "test")
	out, err := goCommand(root, "test", "-vet=off", "-c", "-o", binary, "-overlay", overlay, "./"+n.folder)
	if err != nil {
		return fmt.Errorf("%w:\n%s", errCompile, out)
	}
	c := exec.Command(binary, "-test.run=^"+n.test+"$", "-test.count=1", "-test.timeout=1m", "-test.v")
	c.Dir = filepath.Join(root, filepath.FromSlash(n.folder))
	text, err := c.CombinedOutput()
	switch {
	case err == nil && strings.Contains(string(text), "--- SKIP"):
		return errSkipped
	case err == nil:
		return errGreen
	case !strings.Contains(string(text), "=== RUN   "+n.test):
		return fmt.Errorf("it did not run: %w\n%s", err, text)
	}
	return nil
}

// apply writes changed copies of the files in the patch of n, and returns an
// overlay of the copies for the go command.
func apply(root, work string, n name) (overlay string, err error) {
	file := patchOf(root, n)
	patch, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	files, err := filesOf(string(patch))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	tree := filepath.Join(work, "tree")
	replace := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			return "", fmt.Errorf("%w: %w", errApply, err)
		}
		to := filepath.Join(tree, f)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, f)] = to
	}
	c := exec.Command("git", "apply", "-C1", "--recount", "--whitespace=nowarn", file)
	c.Dir = tree
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", errApply, out)
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(work, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o644)
}

func goCommand(root, verb string, args ...string) (string, error) {
	c := exec.Command("go", append([]string{verb, "-tags=grpcnotrace"}, args...)...)
	c.Dir = root
	out, err := c.CombinedOutput()
	return string(out), err
}
