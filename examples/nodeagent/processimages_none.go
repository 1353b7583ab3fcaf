// SPDX-License-Identifier: Apache-2.0

//go:build noimages

package main

import (
	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/images"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// imageFlags are off in a program built without images for the process backend.
type imageFlags struct{ on bool }

func (*imageFlags) register(*pflag.FlagSet)               {}
func (*imageFlags) complete(*flags, *pflag.FlagSet) error { return nil }

func (*imageFlags) open(_ flags, opts process.Options) (runtime.Runtime, error) {
	return process.New(opts)
}

func storeGC(flags, runtime.Runtime) *images.GC { return nil }
