// SPDX-License-Identifier: Apache-2.0

// Command surface measures the exported names of the module: option fields that
// no code outside their package sets, and names that no code outside their
// package uses. Programs in README.md and docs and the Examples of packages
// (files example_*.go) count as code; tests do not, and are told apart.
//
//	surface            # the shares, and the names of each package
//	surface -pkg ./runtime -v
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	root := flag.String("root", ".", "the repository's root")
	pkg := flag.String("pkg", "", "only names of this package, as ./runtime")
	all := flag.Bool("v", false, "list the names, not only the shares")
	maxUnset := flag.Float64("max-unset", 100, "fail if more than this percentage of the option fields is set by no code")
	flag.Parse()
	s, err := measure(*root)
	if err == nil {
		err = s.print(os.Stdout, strings.TrimPrefix(*pkg, "./"), *all)
	}
	if err == nil && s.unsetShare() > *maxUnset {
		err = fmt.Errorf("surface: %.1f %% of the option fields are set by no code, at most %.1f %% may be: delete them, or show their use in an example",
			s.unsetShare(), *maxUnset)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
