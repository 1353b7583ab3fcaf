// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"errors"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

func joinCluster(flags, func(objects.Ref), *zap.Logger) (*membership, error) {
	return nil, errors.New("--kubeconfig: this program was built without API servers (tag noapiserver)")
}
