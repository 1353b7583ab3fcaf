// SPDX-License-Identifier: Apache-2.0

package runtimetest_test

import (
	"errors"
	"fmt"
	"os/exec"

	"github.com/keelson-dev/keelson/runtime/runtimetest"
)

// Example runs a Behaviour as a backend of real processes does. The test of a backend calls Run;
// see the package's comment.
func Example() {
	command := runtimetest.Shell(runtimetest.Behaviour{
		Print: []string{"ready"}, PrintTail: "bye", ExitAfter: 1, ExitCode: 3,
	})
	out, err := exec.Command(command[0], command[1:]...).Output()
	fmt.Printf("%q\n", out)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		fmt.Println("exit code", exit.ExitCode())
	}
	// Output:
	// "ready\nbye"
	// exit code 3
}
