// SPDX-License-Identifier: Apache-2.0

//go:build !nodevices && !noapiserver

package main

import "github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"

// checks returns the health checks of the registration of device plug-ins.
func (d *deviceManager) checks() []nodeserver.Check {
	if d.manager == nil {
		return nil
	}
	return []nodeserver.Check{{Name: "device-plugin", Do: d.plugins.Check}}
}
