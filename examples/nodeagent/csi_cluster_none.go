// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver && nocsi

package main

import (
	"go.uber.org/zap"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	volumes "github.com/keelson-dev/keelson/volumemanager/apiserver"
)

func (*membership) joinStorage(flags, *rest.Config, corev1.NodesGetter, *volumes.Node, *zap.Logger) error {
	return errNoCSI
}
