// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// withoutFeatures makes a reference agent that lacks features.
func withoutFeatures(names ...string) nodetest.Assemble {
	return func(o node.Options) (nodetest.Assembly, error) {
		o.Without = append(o.Without, names...)
		return nodetest.ReferenceAgent(o)
	}
}

// The features that random schedules do not need, or can be told not to use.
var dispensable = map[string][]nodetest.Feature{
	"deadline":       {nodetest.FeatureDeadlines},
	"images":         {nodetest.FeatureImages},
	"resize":         {nodetest.FeatureResizes},
	"gate":           {nodetest.FeatureResizes, nodetest.FeatureAdmission},
	"restart-memory": nil,
	"mirrors":        {nodetest.FeatureMirrors},
}

// A node without a feature does everything else as before.
func TestEachFeatureCanBeLeftOut(t *testing.T) {
	all := []string{}
	for _, name := range node.FeatureNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			life(t, withoutFeatures(name))
			lacks, ok := dispensable[name]
			if !ok {
				return
			}
			for seed := range casetest.Rounds[uint64](20) {
				require.NoError(t, play(t, withoutFeatures(name), nodetest.Schedule(seed, lacks...)).Err)
			}
		})
		all = append(all, name)
	}
	t.Run("all", func(t *testing.T) { life(t, withoutFeatures(all...)) })
	t.Run("all that schedules do not need", func(t *testing.T) {
		for seed := range casetest.Rounds[uint64](20) {
			r := play(t, withoutFeatures(slices.Sorted(maps.Keys(dispensable))...), nodetest.Schedule(seed, nodetest.FeatureDeadlines, nodetest.FeatureResizes, nodetest.FeatureAdmission, nodetest.FeatureMirrors, nodetest.FeatureImages))
			require.NoError(t, r.Err)
		}
	})
}

// life checks the abilities of every node, with any features: it starts pods, restarts ended
// containers, follows edits, adopts the pods of an earlier agent, and leaves nothing.
func life(t *testing.T, assemble nodetest.Assemble) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{Assemble: assemble})
		n.World.Script(fake.Target{Pod: "crashes"}, fake.Exit(time.Second, 1), fake.Script{})
		pods := []*v1.Pod{nodetest.Pod("stays", nodetest.Container("c")), nodetest.Pod("crashes", nodetest.Container("c"))}
		n.Apply(append(pods, nodetest.Pod("goes", nodetest.Container("c")))...)
		time.Sleep(30 * time.Second)
		n.Apply(pods...)
		time.Sleep(time.Minute)
		n.StopAgent()
		n.StartAgent()
		time.Sleep(time.Minute)
		for _, name := range []string{"stays", "crashes"} {
			assert.Equal(t, v1.PodRunning, n.Status(name).Phase, name)
		}
		assert.Len(t, starts(n, "c"), 4)
		n.Apply()
		time.Sleep(2 * time.Minute)
		n.Settle()
		assert.Empty(t, n.Agent.Pods())
		rt, err := fake.New(fake.Options{World: n.World})
		require.NoError(t, err)
		left, err := rt.List(t.Context(), runtime.ListOptions{})
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

func TestFeaturesThatCannotBeAreRefused(t *testing.T) {
	own := func(names ...string) func(*feature.Host) []feature.Feature {
		return func(*feature.Host) (all []feature.Feature) {
			for _, name := range names {
				all = append(all, feature.Feature{Name: name})
			}
			return all
		}
	}
	for want, change := range map[string]func(*node.Options){
		`Options.Without is ["probes" "wings"]: want some of ["declared"`: func(o *node.Options) { o.Without = []string{"probes", "wings"} },
		"a feature has no Name":                 func(o *node.Options) { o.Features = own("a", "") },
		`two features have the name "deadline"`: func(o *node.Options) { o.Features = own("deadline") },
		`two features have the name "a"`:        func(o *node.Options) { o.Features = own("a", "b", "a") },
	} {
		rt, err := fake.New(fake.Options{})
		require.NoError(t, err)
		bus := podconfig.SourceFunc("bus", func(ctx context.Context, _ podconfig.Sink) error { <-ctx.Done(); return nil })
		o := node.Options{NodeName: "n", Root: t.TempDir(), Runtime: rt, Sources: []podconfig.Source{bus}}
		change(&o)
		_, err = node.New(o)
		require.ErrorContains(t, err, want)
	}
}
