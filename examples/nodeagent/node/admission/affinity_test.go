// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
)

func TestCheckAffinity(t *testing.T) {
	node := &admission.Node{Name: "n", Labels: map[string]string{"zone": "a", "cores": "8", "empty": ""}}
	rule := func(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	all := func(rules ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: rules}
	}
	fields := func(rules ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchFields: rules}
	}
	const in, notIn, exists, missing, gt, lt = v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt
	for _, tt := range []struct {
		name     string
		selector map[string]string
		terms    []v1.NodeSelectorTerm
		want     bool
	}{
		{name: "selector", selector: map[string]string{"zone": "a"}, want: true},
		{name: "selector, another value", selector: map[string]string{"zone": "b"}},
		{name: "selector, an empty value is not none", selector: map[string]string{"other": ""}},
		{name: "selector, empty value", selector: map[string]string{"empty": ""}, want: true},
		{name: "selector and term", selector: map[string]string{"zone": "b"}, terms: []v1.NodeSelectorTerm{all(rule("zone", in, "a"))}},
		{name: "no terms", terms: []v1.NodeSelectorTerm{}},
		{name: "an empty term matches nothing", terms: []v1.NodeSelectorTerm{{}}},
		{name: "in", terms: []v1.NodeSelectorTerm{all(rule("zone", in, "b", "a"))}, want: true},
		{name: "all rules of a term", terms: []v1.NodeSelectorTerm{all(rule("zone", in, "a"), rule("zone", notIn, "a"))}},
		{name: "any term", terms: []v1.NodeSelectorTerm{all(rule("zone", in, "b")), all(rule("zone", exists))}, want: true},
		{name: "not in, though missing", terms: []v1.NodeSelectorTerm{all(rule("rack", notIn, "a"))}, want: true},
		{name: "not in", terms: []v1.NodeSelectorTerm{all(rule("zone", notIn, "a"))}},
		{name: "exists, empty", terms: []v1.NodeSelectorTerm{all(rule("empty", exists))}, want: true},
		{name: "missing", terms: []v1.NodeSelectorTerm{all(rule("rack", missing))}, want: true},
		{name: "not missing", terms: []v1.NodeSelectorTerm{all(rule("zone", missing))}},
		{name: "more", terms: []v1.NodeSelectorTerm{all(rule("cores", gt, "7"))}, want: true},
		{name: "not more", terms: []v1.NodeSelectorTerm{all(rule("cores", gt, "8"))}},
		{name: "less", terms: []v1.NodeSelectorTerm{all(rule("cores", lt, "9"))}, want: true},
		{name: "no number", terms: []v1.NodeSelectorTerm{all(rule("zone", lt, "9"))}},
		{name: "no such operator", terms: []v1.NodeSelectorTerm{all(rule("zone", "Like", "a"))}},
		{name: "name", terms: []v1.NodeSelectorTerm{fields(rule("metadata.name", in, "n"))}, want: true},
		{name: "another name", terms: []v1.NodeSelectorTerm{fields(rule("metadata.name", in, "m"))}},
		{name: "not that name", terms: []v1.NodeSelectorTerm{fields(rule("metadata.name", notIn, "m"))}, want: true},
		{name: "another field", terms: []v1.NodeSelectorTerm{fields(rule("metadata.uid", notIn, "m"))}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pod("p", static)
			p.Spec.NodeSelector = tt.selector
			if tt.terms != nil {
				p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: tt.terms},
				}}
			}
			failures := admission.Check(node, usage(), admission.DemandOf(p))
			require.Equal(t, tt.want, len(failures) == 0)
			if !tt.want {
				require.Equal(t, "NodeAffinity", failures[0].Reason)
				require.Equal(t, "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector", failures[0].Message)
			}
		})
	}
}
