// SPDX-License-Identifier: Apache-2.0

// Package nodeselector matches nodes with the terms of node selectors, as the scheduler (Kubernetes
// 1.36) does. Pods and persistent volumes have such terms.
package nodeselector

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Matches reports whether all requirements of the term match a node with the labels and the name. An
// empty term and an invalid requirement match no node.
func Matches(t *v1.NodeSelectorTerm, labels map[string]string, name string) bool {
	for i := range t.MatchExpressions {
		value, ok := labels[t.MatchExpressions[i].Key]
		if !matchesRequirement(&t.MatchExpressions[i], value, ok) {
			return false
		}
	}
	for i := range t.MatchFields {
		if r := &t.MatchFields[i]; checkField(r) != nil || !matchesRequirement(r, name, true) {
			return false
		}
	}
	return len(t.MatchExpressions)+len(t.MatchFields) > 0
}

// matchesRequirement reports whether the requirement matches the value. An invalid requirement
// matches nothing.
func matchesRequirement(r *v1.NodeSelectorRequirement, value string, has bool) bool {
	switch r.Operator {
	case v1.NodeSelectorOpIn:
		return has && slices.Contains(r.Values, value)
	case v1.NodeSelectorOpNotIn:
		return len(r.Values) > 0 && !(has && slices.Contains(r.Values, value))
	case v1.NodeSelectorOpExists:
		return len(r.Values) == 0 && has
	case v1.NodeSelectorOpDoesNotExist:
		return len(r.Values) == 0 && !has
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		if !has || len(r.Values) != 1 {
			return false
		}
		have, err := strconv.ParseInt(value, 10, 64)
		bound, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil || err2 != nil {
			return false
		}
		return r.Operator == v1.NodeSelectorOpGt && have > bound || r.Operator == v1.NodeSelectorOpLt && have < bound
	}
	return false
}

// operators are the operators of labels, by those of node selectors.
var operators = map[v1.NodeSelectorOperator]selection.Operator{
	v1.NodeSelectorOpIn: selection.In, v1.NodeSelectorOpNotIn: selection.NotIn,
	v1.NodeSelectorOpExists: selection.Exists, v1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	v1.NodeSelectorOpGt: selection.GreaterThan, v1.NodeSelectorOpLt: selection.LessThan,
}

// Check returns an error for an invalid requirement of the term. The error contains only text of the
// selector.
func Check(t *v1.NodeSelectorTerm) error {
	for _, r := range t.MatchExpressions {
		operator, ok := operators[r.Operator]
		if !ok {
			return fmt.Errorf("label %s: %q is no operator", r.Key, r.Operator)
		}
		if _, err := labels.NewRequirement(r.Key, operator, r.Values); err != nil { // may have several lines
			return fmt.Errorf("label %s: %s", r.Key, strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	for i := range t.MatchFields {
		if err := checkField(&t.MatchFields[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkField(r *v1.NodeSelectorRequirement) error {
	if r.Key != "metadata.name" {
		return fmt.Errorf("%q is no field that can be selected by", r.Key)
	}
	if len(r.Values) != 1 || r.Operator != v1.NodeSelectorOpIn && r.Operator != v1.NodeSelectorOpNotIn {
		return fmt.Errorf("field %s: want In or NotIn with one value", r.Key)
	}
	return nil
}
