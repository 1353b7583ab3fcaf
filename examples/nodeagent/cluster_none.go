// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"errors"

	"go.uber.org/zap"
)

func joinCluster(flags, news, *zap.Logger) (*membership, error) {
	return nil, errors.New("--kubeconfig: this program was built without API servers (tag noapiserver)")
}
