// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"math/rand/v2"
	"slices"
	"strconv"
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

// Label requirements behave as documented in the API.
func TestHoldsLikeTheDocumentation(t *testing.T) {
	says := func(r v1.NodeSelectorRequirement, labels map[string]string) bool {
		value, exists := labels[r.Key]
		switch r.Operator {
		case v1.NodeSelectorOpIn:
			return exists && slices.Contains(r.Values, value)
		case v1.NodeSelectorOpNotIn:
			return !exists || !slices.Contains(r.Values, value)
		case v1.NodeSelectorOpExists:
			return exists
		case v1.NodeSelectorOpDoesNotExist:
			return !exists
		}
		have, err := strconv.Atoi(value)
		want, _ := strconv.Atoi(r.Values[0])
		return exists && err == nil && (r.Operator == v1.NodeSelectorOpGt && have > want || r.Operator == v1.NodeSelectorOpLt && have < want)
	}
	random := rand.New(rand.NewPCG(3, 4))
	values := []string{"1", "2", "10", "x"}
	for range 5_000 {
		labels := map[string]string{}
		for _, key := range []string{"a", "b"} {
			if random.IntN(2) == 0 {
				labels[key] = values[random.IntN(len(values))]
			}
		}
		r := v1.NodeSelectorRequirement{Key: []string{"a", "b", "c"}[random.IntN(3)],
			Operator: []v1.NodeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}[random.IntN(6)]}
		switch r.Operator {
		case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
			r.Values = values[:1+random.IntN(len(values))]
		case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
			r.Values = []string{values[random.IntN(3)]}
		}
		got, err := holds(r, labels)
		require.NoError(t, err)
		require.Equal(t, says(r, labels), got, "%v of %v", r, labels)
	}
}
