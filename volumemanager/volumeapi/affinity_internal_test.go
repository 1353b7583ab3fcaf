// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSelects(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a", "size": "5"}}}
	expression := func(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	field := func(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	both := func(a, b v1.NodeSelectorTerm) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: slices.Concat(a.MatchExpressions, b.MatchExpressions),
			MatchFields: slices.Concat(a.MatchFields, b.MatchFields)}
	}
	in, out := expression("zone", "In", "b", "a"), expression("zone", "In", "b")
	for _, tc := range []struct {
		name  string
		terms []v1.NodeSelectorTerm
		want  bool
		err   string
	}{
		{"no terms", nil, false, ""},
		{"a term without requirements", []v1.NodeSelectorTerm{{}}, false, ""},
		{"in", []v1.NodeSelectorTerm{in}, true, ""},
		{"not in these", []v1.NodeSelectorTerm{out}, false, ""},
		{"one of the terms", []v1.NodeSelectorTerm{out, {}, in}, true, ""},
		{"all of a term", []v1.NodeSelectorTerm{both(in, out)}, false, ""},
		{"exists", []v1.NodeSelectorTerm{expression("zone", "Exists")}, true, ""},
		{"does not exist", []v1.NodeSelectorTerm{expression("zone", "DoesNotExist")}, false, ""},
		{"name", []v1.NodeSelectorTerm{field("metadata.name", "In", "n")}, true, ""},
		{"another name", []v1.NodeSelectorTerm{field("metadata.name", "In", "m")}, false, ""},
		{"not another name", []v1.NodeSelectorTerm{field("metadata.name", "NotIn", "m")}, true, ""},
		{"name and label", []v1.NodeSelectorTerm{both(field("metadata.name", "In", "n"), out)}, false, ""},
		{"another field", []v1.NodeSelectorTerm{field("metadata.uid", "In", "n")}, false, "nodeSelectorTerms[0]"},
		{"two names", []v1.NodeSelectorTerm{field("metadata.name", "In", "n", "m")}, false, "one value"},
		{"no operator", []v1.NodeSelectorTerm{expression("zone", "Like", "a")}, false, `"Like" is no operator`},
		{"not a number", []v1.NodeSelectorTerm{expression("size", "Gt", "x")}, false, "must be an integer"},
		{"a bad term and a good one", []v1.NodeSelectorTerm{expression("size", "Gt", "x"), in}, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := selects(&v1.NodeSelector{NodeSelectorTerms: tc.terms}, node)
			assert.Equal(t, tc.want, got)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
				assert.NotContains(t, err.Error(), "\n")
			}
		})
	}
}
