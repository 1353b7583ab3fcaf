// SPDX-License-Identifier: Apache-2.0

// Command release does two steps of a release:
//
//	release -check -version v0.37.0        # may this tree be released?
//	release -pack dist -version v0.37.0    # dist/<name>_<os>_<arch>/ to archives
//
// A packed folder becomes <name>_<version>_<os>_<arch>.tar.gz, with an SBOM in
// CycloneDX's format beside it, and dist/SHA256SUMS has the checksums of all,
// and of the deb and rpm packages that are in dist already. Archives of the same files are the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	version := flag.String("version", "", "the version, as v0.37.0")
	check := flag.Bool("check", false, "check that the tree in this folder may be released")
	dry := flag.Bool("dry", false, "with -check: print what would refuse the release and succeed")
	pack := flag.String("pack", "", "pack the folders below this one")
	flag.Parse()

	var err error
	switch {
	case *check:
		err = checkTree(*version, *dry)
	case *pack != "":
		err = packAll(*pack, *version)
	default:
		err = errors.New("release: give -check or -pack DIR")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// checkTree refuses a release of the tree in the working directory for each
// reason that refusals finds.
func checkTree(version string, dry bool) error {
	t, err := readTree()
	if err != nil {
		return err
	}
	var refused []error
	for _, reason := range refusals(version, t) {
		refused = append(refused, errors.New("release: "+reason))
	}
	if dry {
		for _, err := range refused {
			fmt.Println("dry run, a release would stop here:", err)
		}
		return nil
	}
	return errors.Join(refused...)
}
