// SPDX-License-Identifier: Apache-2.0

//go:build nodevices

package main

import (
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
)

// deviceFlags is empty in a program built without device plug-ins.
type deviceFlags struct{}

func (*deviceFlags) register(*pflag.FlagSet)               {}
func (*deviceFlags) complete(*flags, *pflag.FlagSet) error { return nil }

// deviceManager is empty in a program built without device plug-ins.
type deviceManager struct {
	isNew   bool
	changed func()
}

func newDevices(flags, *metrics, *zap.Logger) (*deviceManager, error) { return &deviceManager{}, nil }

func (*deviceManager) features(*feature.Host) []feature.Feature { return nil }

func (*deviceManager) resources(capacity, allocatable v1.ResourceList) (v1.ResourceList, v1.ResourceList) {
	return capacity, allocatable
}
