// SPDX-License-Identifier: Apache-2.0

//go:build nometrics && !noapiserver

package main

import (
	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
)

func (*metrics) requests() nodeserver.Observer    { return nodeserver.Observer{} }
func (*metrics) watchIdentity(*identity)          {}
func (*metrics) watchClaims(*nodestats.Collector) {}
