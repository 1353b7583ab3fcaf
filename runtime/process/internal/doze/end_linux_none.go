// SPDX-License-Identifier: Apache-2.0

//go:build linux && noseccomp

package doze

import "github.com/keelson-dev/keelson/runtime/process/internal/tiny"

// add adds nothing: in the build for small nodes, each end wakes the program of Go.
func (*End) add(*tiny.Program, tiny.Label, tiny.Label) {}
