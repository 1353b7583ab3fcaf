// SPDX-License-Identifier: Apache-2.0

package prober

// Narrow changes how many attempts, and how many exec attempts, run at a time.
func (p *Prober) Narrow(network, exec int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.network.limit, p.mu.exec.limit = network, exec
}
