// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"io/fs"

	"github.com/spf13/pflag"
)

// hostFlags is empty in a program built for small nodes, which has no configuration file of a kubelet.
type hostFlags struct{}

func (*hostFlags) register(*pflag.FlagSet)     {}
func (*hostFlags) complete(*serverFlags) error { return nil }
func (*hostFlags) check(fs.FS) error           { return nil }
func (*hostFlags) profile(bool)                {}
