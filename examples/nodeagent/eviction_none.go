// SPDX-License-Identifier: Apache-2.0

//go:build noeviction

package main

import (
	"context"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
)

// evictionFlags is empty in a program built without evictions.
type evictionFlags struct{}

func (*evictionFlags) register(*pflag.FlagSet)                  {}
func (*evictionFlags) complete(*flags, *pflag.FlagSet) error    { return nil }
func (*evictionFlags) withheld(v1.ResourceList) v1.ResourceList { return nil }

// evictor is empty in a program built without evictions.
type evictor struct{ changed func() }

func newEvictor(context.Context, flags, *collector, *metrics, *zap.Logger) (*evictor, error) {
	return &evictor{}, nil
}

func (*evictor) features(func() *node.Agent) features    { return nil }
func (*evictor) pressure() map[v1.NodeConditionType]bool { return nil }
