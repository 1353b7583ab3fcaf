// SPDX-License-Identifier: Apache-2.0

package csi

import "time"

// SetTimeout replaces driverTimeout.
func (p *Plugin) SetTimeout(d time.Duration) { p.timeout = d }
