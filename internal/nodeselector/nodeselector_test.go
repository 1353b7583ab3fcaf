// SPDX-License-Identifier: Apache-2.0

package nodeselector_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/nodeselector"
)

// Label requirements behave as documented in the API.
func TestMatchesLikeTheDocumentation(t *testing.T) {
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
		term := &v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{r}}
		require.NoError(t, nodeselector.Check(term))
		require.Equal(t, says(r, labels), nodeselector.Matches(term, labels, "n"), "%v of %v", r, labels)
	}
}
