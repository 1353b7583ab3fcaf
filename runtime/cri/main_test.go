// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"flag"
	"os"
	"testing"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// containerd is one for all tests of the package that need a real one.
var containerd containerdtest.Shared

// TestMain lets more tests run at a time than there are cores: those of the
// conformance suite mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		os.Exit(2)
	}
	os.Exit(containerd.Main(m))
}
