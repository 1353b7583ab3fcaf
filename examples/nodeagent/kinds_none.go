// SPDX-License-Identifier: Apache-2.0

//go:build nokinds

package main

import (
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// kindFlags are empty in a program built without kinds other than Pod.
type kindFlags struct{}

func (*kindFlags) register(*pflag.FlagSet) {}
func (*kindFlags) complete() error         { return nil }

// newDecode returns nil: a program built without kinds reads a single Pod from a file.
func newDecode(flags, func(manifest.Origin, string)) func([]byte, manifest.Origin) ([]*v1.Pod, error) {
	return nil
}

func kindsPolicy(f flags) func(*v1.Pod) error { return staticPolicy(f) }

// localKinds is empty in a program built without kinds other than Pod.
type localKinds struct{}

func newKinds(flags, *objects.Store, *zap.Logger) (*localKinds, error) { return nil, nil }

func (*localKinds) decode() func([]byte, manifest.Origin) ([]*v1.Pod, error) { return nil }
func (*localKinds) wrap(sources []podconfig.Source) []podconfig.Source       { return sources }
func (*localKinds) features(*feature.Host) []feature.Feature                 { return nil }
func (*localKinds) apply(*node.Options)                                      {}
