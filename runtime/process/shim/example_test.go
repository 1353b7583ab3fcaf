// SPDX-License-Identifier: Apache-2.0

package shim_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/runtime/process/shim"
)

// Example is the main function of a program that is its own shim. A process that package process
// started to be a shim ends in Main; every other process goes on.
func Example() {
	shim.Main()
	fmt.Println("the program")
	// Output:
	// the program
}
