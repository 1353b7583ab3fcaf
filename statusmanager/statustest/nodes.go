// SPDX-License-Identifier: Apache-2.0

package statustest

// AddNode reserves the name of a node, so that nodes on the same server have different names.
// AddNode returns false if the name is taken.
func (s *Server) AddNode(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.nodes[name] {
		return false
	}
	s.mu.nodes[name] = true
	return true
}

// RemoveNode frees the name of a node. Pods bound to the node stay.
func (s *Server) RemoveNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.nodes, name)
}
