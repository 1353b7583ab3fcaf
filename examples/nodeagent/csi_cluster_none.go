// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver && nocsi

package main

import (
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/kubeclient"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

func (*membership) joinStorage(flags, *kubeclient.Client, *volumeapi.Node, *zap.Logger) error {
	return errNoCSI
}
