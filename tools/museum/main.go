// SPDX-License-Identifier: Apache-2.0

// Command museum puts faults of the kubelet into keelson, one at a time, and
// runs the test named after the issue. A test that still passes is no regression
// test.
//
// The fault of TestUpstream123Name is a patch beside the test, in
// testdata/museum/TestUpstream123Name.patch, with a sentence about the fault
// above it. Tests without a patch are in without.txt, with the reason.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	root := flag.String("root", ".", "the repository's root")
	pattern := flag.String("run", "", "only tests whose folder and name match this expression")
	workers := flag.Int("workers", 2, "patches at a time")
	flag.Parse()
	chosen, err := regexp.Compile(*pattern)
	if err == nil {
		*root, err = filepath.Abs(*root)
	}
	if err == nil {
		err = visit(*root, chosen, *workers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// visit judges the chosen exhibits.
func visit(root string, chosen *regexp.Regexp, workers int) error {
	began := time.Now()
	m, err := open(root, withoutText)
	if err != nil {
		return err
	}
	for _, wrong := range m.wrong {
		fmt.Println(wrong)
	}
	results := m.try(root, chosen, workers)
	red, skipped := 0, 0
	for _, r := range results {
		switch {
		case r.err == nil:
			red++
		case errors.Is(r.err, errSkipped):
			skipped++
		}
	}
	fmt.Printf("%d tests named after issues, %d with a patch, %d without for a reason; %d of %d patches tried turn their test red, %d tests are skipped on this machine, in %v\n",
		len(m.tests), len(m.exhibits), len(m.without), red, len(results), skipped, time.Since(began).Round(time.Second))
	if bad := len(results) - red - skipped; bad > 0 || len(m.wrong) > 0 {
		return fmt.Errorf("%d patches do not turn their test red, %d entries are wrong", bad, len(m.wrong))
	}
	return nil
}
