// SPDX-License-Identifier: Apache-2.0

//go:build nodevices && !noapiserver

package main

import "github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"

func (*deviceManager) checks() []nodeserver.Check { return nil }
