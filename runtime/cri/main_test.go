// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// containerd is shared by all tests of the package with a real containerd.
var containerd containerdtest.Shared

// TestMain runs more tests in parallel than there are cores, because tests of the conformance suite
// mostly wait.
func TestMain(m *testing.M) {
	beShim()
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		os.Exit(2)
	}
	os.Exit(containerd.Main(m))
}

// shimEnv makes the test binary imitate a shim with only the arguments, the folder and the socket.
// The value is the socket's path.
const shimEnv = "KEELSON_CRI_TEST_SHIM"

// beShim ends with its standard input, or after a minute.
func beShim() {
	path := os.Getenv(shimEnv)
	if path == "" {
		return
	}
	_, err := net.Listen("unix", path)
	if err == nil && os.Getenv(shimEnv+"_CHILD") != "" {
		err = exec.Command("sleep", "60").Start()
	}
	if err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
