// SPDX-License-Identifier: Apache-2.0

// Package testneed skips tests of programs that the machine lacks.
package testneed

import (
	"errors"
	"os"
	"testing"
)

// SkipOrFail ends t if err is an error of starting a program. An error that wraps unavailable skips
// the test, unless the variable require is 1 in the environment. Any other error fails the test.
func SkipOrFail(t testing.TB, program string, err, unavailable error, require string) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, unavailable) && os.Getenv(require) != "1":
		t.Skip(err)
	default:
		t.Fatalf("start %s: %v", program, err)
	}
}
