// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver && nocsi

package main

import (
	"go.uber.org/zap"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

func (*membership) joinStorage(flags, *rest.Config, corev1.NodesGetter, *volumeapi.Node, *zap.Logger) error {
	return errNoCSI
}
