// SPDX-License-Identifier: Apache-2.0

package emptydir

// SetHugePages replaces the kernel's folder about huge pages.
func (p *Plugin) SetHugePages(dir string) { p.hugePages = dir }
