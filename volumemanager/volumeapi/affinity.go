// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/nodeselector"
)

// selects reports whether a term of the selector matches the node. An invalid term matches no node,
// and is an error if no other term matches.
func selects(s *v1.NodeSelector, node *v1.Node) (bool, error) {
	var bad []error
	for i := range s.NodeSelectorTerms {
		term := &s.NodeSelectorTerms[i]
		if err := nodeselector.Check(term); err != nil {
			bad = append(bad, fmt.Errorf("nodeSelectorTerms[%d]: %w", i, err))
		} else if nodeselector.Matches(term, node.Labels, node.Name) {
			return true, nil
		}
	}
	return false, errors.Join(bad...)
}
