// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"errors"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
	"github.com/keelson-dev/keelson/podconfig"
)

func joinCluster(flags, *zap.Logger) (podconfig.Source, nodeagent.Cluster, func(), error) {
	return nil, nodeagent.Cluster{}, nil, errors.New("--kubeconfig: this program was built without API servers (tag noapiserver)")
}
