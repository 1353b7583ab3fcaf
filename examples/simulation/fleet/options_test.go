// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/examples/simulation/fleet"
)

func TestOptions(t *testing.T) {
	for want, change := range map[string]func(*fleet.Options){
		"Options.Schedule needs all nodes in one process":        func(o *fleet.Options) { o.Schedule, o.Shards = true, 2 },
		"Options.Config is required":                             func(o *fleet.Options) { o.Config = nil },
		"Options.Objects is set, beside Nodes":                   func(o *fleet.Options) { o.Objects = []*v1.Node{{}} },
		"Options.Objects is set, beside Nodes, Name or Taints":   func(o *fleet.Options) { o.Objects, o.Nodes, o.Taints = []*v1.Node{{}}, 0, []v1.Taint{{}} },
		"Options.Nodes is 0: want 1 to 16384":                    func(o *fleet.Options) { o.Nodes = 0 },
		`Options.Root "here": want an absolute path`:             func(o *fleet.Options) { o.Root = "here" },
		"Options.Shard is 2, of 2 shards of 3 nodes":             func(o *fleet.Options) { o.Shard, o.Shards = 2, 2 },
		`NodeName "A-0": a lowercase RFC 1123 subdomain`:         func(o *fleet.Options) { o.Name = "A" },
		"Options.Shard is 3, of 5 shards of 3 nodes: a shard wi": func(o *fleet.Options) { o.Shard, o.Shards = 3, 5 },
	} {
		o := fleet.Options{Config: &rest.Config{Host: "127.0.0.1:1"}, Root: t.TempDir(), Nodes: 3}
		change(&o)
		_, err := fleet.New(o)
		require.ErrorContains(t, err, want)
	}
}
