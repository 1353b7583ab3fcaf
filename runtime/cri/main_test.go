// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"os"
	"testing"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// containerd is one for all tests of the package that need a real one.
var containerd containerdtest.Shared

func TestMain(m *testing.M) { os.Exit(containerd.Main(m)) }
