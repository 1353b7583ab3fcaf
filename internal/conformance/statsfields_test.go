// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingFields(t *testing.T) {
	read := func(text string) map[string]bool {
		var value any
		require.NoError(t, json.Unmarshal([]byte(text), &value))
		fields := map[string]bool{}
		addFields(fields, "", value)
		return fields
	}
	theirs := read(`{"node":{"cpu":{"time":"t","psi":null},"systemContainers":[{"name":"pods","cpu":{"n":1,"psi":{"some":{"total":0}}}},{"name":"kubelet","swap":0}]},"pods":[{"a":1},{"b":[{"c":false}]}]}`)
	require.Equal(t, []string{
		"node.cpu.time", "node.systemContainers[kubelet].name", "node.systemContainers[kubelet].swap", "node.systemContainers[pods].cpu.n", "node.systemContainers[pods].cpu.psi.some.total", "node.systemContainers[pods].name", "pods.a", "pods.b.c",
	}, slices.Sorted(maps.Keys(theirs)))
	ours := read(`{"node":{"cpu":{"time":"t"},"systemContainers":[{"name":"pods","swap":1,"cpu":{"n":2}},{"name":"kubelet"}]},"pods":[{"b":[{"c":true}]},{"a":2,"d":1}]}`)
	require.Equal(t, []string{"node.systemContainers[kubelet].swap"}, missingFields(theirs, ours))
}
