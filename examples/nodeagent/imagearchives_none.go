// SPDX-License-Identifier: Apache-2.0

//go:build noimagearchives

package main

import (
	"context"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
)

// archiveFlags has no flag in a program built without image archives.
type archiveFlags struct{ dir string }

func (*archiveFlags) register(*pflag.FlagSet)     {}
func (*archiveFlags) complete(string, bool) error { return nil }

func newArchives(context.Context, flags, *zap.Logger) (features, error) {
	return nil, nil
}
