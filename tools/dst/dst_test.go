// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnknownText: a Go version with another text is an error that names version and file.
func TestUnknownText(t *testing.T) {
	change := edit{purpose: "a purpose", file: "runtime/proc.go", old: []string{"old text"}, new: "new: %s"}
	for _, test := range []struct{ name, text, want string }{
		{"absent", "other text", "is not there"},
		{"twice", "old text, old text", "more than once"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, "src/runtime/proc.go"), test.text)
			_, err := toolchain{root, "go1.99"}.writeOverlay(t.TempDir(), []edit{change}, nil)
			if !errors.Is(err, errUnknown) {
				t.Fatal(err)
			}
			for _, word := range []string{"go1.99", "runtime/proc.go", "a purpose", test.want} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q lacks %q", err, word)
				}
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		_, err := toolchain{t.TempDir(), "go1.99"}.writeOverlay(t.TempDir(), []edit{change}, nil)
		if !errors.Is(err, errUnknown) || !strings.Contains(err.Error(), "runtime/proc.go") {
			t.Fatal(err)
		}
	})
	t.Run("taken", func(t *testing.T) {
		root := t.TempDir()
		write(t, filepath.Join(root, "src/runtime/dst.go"), "package runtime")
		_, err := toolchain{root, "go1.99"}.writeOverlay(t.TempDir(), nil, added)
		if !errors.Is(err, errUnknown) || !strings.Contains(err.Error(), "runtime/dst.go") {
			t.Fatal(err)
		}
	})
}

func TestEditKeepsTheRest(t *testing.T) {
	got, err := edit{old: []string{"absent", "b%"}, new: "[%s %%]"}.apply("a b% c")
	if err != nil || got != "a [b% %] c" {
		t.Fatal(got, err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// minors are the latest releases of the current minor version of Go and of the one before.
var minors = []string{"go1.27.4", "go1.26.8"}

// TestSourcesOfNoise runs the tests of testdata/sources several times, in processes with other
// addresses, other numbers of processors, a collector that hardly rests, and cold and warm caches.
// Every source of noise is a test there. The toolchains come from the module proxy.
func TestSourcesOfNoise(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the standard library anew")
	}
	for _, version := range minors {
		t.Run(version, func(t *testing.T) {
			chain, err := installed(append(os.Environ(), "GOTOOLCHAIN="+version))
			if err != nil && os.Getenv("CI") == "" {
				t.Skip("the toolchain is not to be had: ", err)
			}
			if err != nil || chain.version != version {
				t.Fatal(chain, err)
			}
			sourcesOfNoise(t, chain)
		})
	}
}

func sourcesOfNoise(t *testing.T, chain toolchain) {
	known := make(map[string]string) // by test
	for _, env := range [][]string{{"GOGC=1"}, {"GOGC=400", "GOMAXPROCS=4"}, {"GOGC=20", "GODEBUG=gccheckmark=0"}} {
		for name, seen := range orders(t, chain, 1, append(env, "DISTURB=1"), "-cpu=1,3", "-count=2") {
			if len(seen) != 4 {
				t.Fatalf("%s ran %d times", name, len(seen))
			}
			for _, order := range seen {
				if known[name] == "" {
					known[name] = order
				}
				if order != known[name] {
					t.Errorf("%s with %v: %.100s\nand before: %.100s", name, env, order, known[name])
				}
			}
		}
	}
	if len(known) != 11 {
		t.Errorf("%d tests ran", len(known))
	}
	for name, seen := range orders(t, chain, 2, nil) {
		if seen[0] == known[name] && name != "TestMutexStarvation" {
			t.Errorf("%s: seeds 1 and 2 are the same order %.100s", name, seen[0])
		}
	}
}

// TestSeedIsChecked: a seed that is not a number of 64 bits is an error before any test runs.
func TestSeedIsChecked(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the standard library anew")
	}
	chain, err := installed(os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := chain.writeOverlay(t.TempDir(), edits, added)
	if err != nil {
		t.Fatal(err)
	}
	for seed, good := range map[string]bool{
		"abc": false, "-1": false, "0x10": false, "18446744073709551616": false,
		"18446744073709551615": true, "": true,
	} {
		cmd := chain.test(overlay, 1, []string{"-run=TestSelect", "-count=1", "-vet=off"})
		cmd.Dir, cmd.Env = filepath.Join("testdata", "sources"), append(cmd.Env, "DST_SEED="+seed)
		out, err := cmd.CombinedOutput()
		if good != (err == nil) || !good && !strings.Contains(string(out), "DST_SEED="+seed+": the seed is a number") {
			t.Errorf("DST_SEED=%q: %v\n%s", seed, err, out)
		}
	}
}

// orders runs the tests of testdata/sources, and returns the orders that each has printed.
func orders(t *testing.T, chain toolchain, seed uint64, env []string, args ...string) map[string][]string {
	t.Helper()
	overlay, err := chain.writeOverlay(t.TempDir(), edits, added)
	if err != nil {
		t.Fatal(err)
	}
	cmd := chain.test(overlay, seed, append([]string{"-v", "-count=1", "-vet=off"}, args...))
	cmd.Dir, cmd.Env = filepath.Join("testdata", "sources"), append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		if name, found := strings.CutPrefix(line, "ORDER "); found {
			name, order, _ := strings.Cut(strings.TrimSpace(name), " ")
			printed[name] = append(printed[name], order)
		}
	}
	return printed
}
