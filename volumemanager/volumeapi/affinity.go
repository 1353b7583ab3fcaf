// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// selects reports whether a term of the selector matches the node. An invalid term matches no node,
// and is an error if no other term matches.
func selects(s *v1.NodeSelector, node *v1.Node) (bool, error) {
	var bad []error
	for i := range s.NodeSelectorTerms {
		ok, err := matches(&s.NodeSelectorTerms[i], node)
		if ok {
			return true, nil
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("nodeSelectorTerms[%d]: %w", i, err))
		}
	}
	return false, errors.Join(bad...)
}

// matches reports whether all requirements of a term hold. A term without requirements matches no
// node.
func matches(term *v1.NodeSelectorTerm, node *v1.Node) (bool, error) {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return false, nil
	}
	all := true
	for _, r := range term.MatchExpressions {
		ok, err := holds(r, labels.Set(node.Labels))
		if err != nil {
			return false, err
		}
		all = all && ok
	}
	for _, r := range term.MatchFields {
		if r.Key != "metadata.name" {
			return false, fmt.Errorf("%q is no field that can be selected by", r.Key)
		}
		if len(r.Values) != 1 || r.Operator != v1.NodeSelectorOpIn && r.Operator != v1.NodeSelectorOpNotIn {
			return false, fmt.Errorf("field %s: want In or NotIn with one value", r.Key)
		}
		all = all && (r.Values[0] == node.Name) == (r.Operator == v1.NodeSelectorOpIn)
	}
	return all, nil
}

// operator converts an operator of a node selector to a label operator; false for an unknown
// operator.
func operator(o v1.NodeSelectorOperator) (selection.Operator, bool) {
	switch o {
	case v1.NodeSelectorOpIn:
		return selection.In, true
	case v1.NodeSelectorOpNotIn:
		return selection.NotIn, true
	case v1.NodeSelectorOpExists:
		return selection.Exists, true
	case v1.NodeSelectorOpDoesNotExist:
		return selection.DoesNotExist, true
	case v1.NodeSelectorOpGt:
		return selection.GreaterThan, true
	case v1.NodeSelectorOpLt:
		return selection.LessThan, true
	}
	return "", false
}

func holds(r v1.NodeSelectorRequirement, of labels.Set) (bool, error) {
	op, ok := operator(r.Operator)
	if !ok {
		return false, fmt.Errorf("label %s: %q is no operator", r.Key, r.Operator)
	}
	// The error about the values may have several lines. It contains only text of the selector.
	requirement, err := labels.NewRequirement(r.Key, op, r.Values)
	if err != nil {
		return false, fmt.Errorf("label %s: %s", r.Key, strings.Join(strings.Fields(err.Error()), " "))
	}
	return requirement.Matches(of), nil
}
