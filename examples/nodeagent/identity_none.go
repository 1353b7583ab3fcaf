// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import "github.com/spf13/pflag"

// identityFlags is empty in a program built without API servers.
type identityFlags struct{}

func (*identityFlags) register(*pflag.FlagSet) {}
func (*identityFlags) complete(*flags) error   { return nil }

// identity is empty in a program built without API servers.
type identity struct{}
