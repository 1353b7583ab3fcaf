// SPDX-License-Identifier: Apache-2.0

// Command dst runs go test with an order of goroutines that a seed decides.
//
//	dst [-seed N] test [arguments of go test]
//
// In a bubble of package testing/synctest, the next goroutine, the case of a select, the order of
// timers of an instant, the iteration of a map and the numbers of math/rand are functions of the
// seed. Two processes with the same seed and the same test behave alike, byte for byte. Another seed
// is another order.
//
// The command edits files of the runtime, of context and of four other packages. The files are read
// from the user's own GOROOT, written to a temporary folder, and given to the go command as an
// overlay. The Go installation stays as it is. A Go version with another text at the edited places
// is an error.
//
// The environment variable DST_SEED has the seed in the tests. os.Setenv changes the seed of the
// bubbles that are made afterwards.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	seed := flag.Uint64("seed", 1, "of the order of goroutines")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: dst [-seed N] test [arguments of go test]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.Arg(0) != "test" {
		flag.Usage()
		os.Exit(2)
	}
	err := run(*seed, flag.Args()[1:])
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		os.Exit(max(failed.ExitCode(), 1))
	case err != nil:
		fmt.Fprintln(os.Stderr, "dst:", err)
		os.Exit(2)
	}
}

// run runs go test with the overlay.
func run(seed uint64, args []string) error {
	chain, err := installed(os.Environ())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "dst-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := chain.writeOverlay(dir, edits, added)
	if err != nil {
		return err
	}
	cmd := chain.test(overlay, seed, args)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// test returns a command go test with the overlay.
func (t toolchain) test(overlay string, seed uint64, args []string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(t.root, "bin", "go"), append([]string{"test", "-overlay=" + overlay}, args...)...)
	cmd.Env = append(os.Environ(), "GOROOT="+t.root, "GOTOOLCHAIN=local", "DST_SEED="+strconv.FormatUint(seed, 10))
	return cmd
}

// installed returns the toolchain that the go command uses in this folder with these variables.
func installed(env []string) (toolchain, error) {
	cmd := exec.Command("go", "env", "GOROOT", "GOVERSION", "GOMODCACHE")
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		return toolchain{}, fmt.Errorf("go env: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 {
		return toolchain{}, fmt.Errorf("go env printed %q", out)
	}
	t := toolchain{root: lines[0], version: lines[1]}
	if !strings.HasPrefix(t.root, lines[2]+string(filepath.Separator)) {
		return t, nil
	}
	// The go command refuses an overlay of files of the module cache, where it keeps downloaded
	// toolchains. The link has a fixed name, because the name is a part of the keys of the build cache.
	cache, err := os.UserCacheDir()
	if err != nil {
		return toolchain{}, err
	}
	link := filepath.Join(cache, "keelson-dst", t.version)
	if target, err := os.Readlink(link); err == nil && target == t.root {
		t.root = link
		return t, nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return toolchain{}, err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return toolchain{}, err
	}
	if err := os.Symlink(t.root, link); err != nil {
		return toolchain{}, err
	}
	t.root = link
	return t, nil
}
