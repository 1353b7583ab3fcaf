// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver && noeviction

package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// collector is empty in a program that neither shows the usage of pods nor evicts pods.
type collector struct{}

func newCollector(flags, runtime.Runtime, func() []*v1.Pod, func(types.UID) map[string]string) (*collector, error) {
	return nil, nil
}
