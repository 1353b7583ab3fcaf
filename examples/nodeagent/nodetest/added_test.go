// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/eviction"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/hostneeds"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/loglinks"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/shutdown"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/updates"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/internal/casetest"
)

// added adds a feature that a caller of package node chooses to the options of an agent.
type added func(t *testing.T, o *node.Options)

// addedFeatures are the features that are not in node.FeatureNames, by the name of the folder.
var addedFeatures = map[string]added{
	"cgroups": func(t *testing.T, o *node.Options) {
		groups, err := cgroups.New(cgroups.Options{Writer: &groupNames{}, Driver: cgroups.Cgroupfs, Records: filepath.Join(o.Root, "cgroups")})
		require.NoError(t, err)
		addFeatures(o, func(h *feature.Host) []feature.Feature { return []feature.Feature{groups.Feature(h)} })
	},
	"devices": func(t *testing.T, o *node.Options) {
		dir := filepath.Join(o.Root, "plugins")
		require.NoError(t, os.MkdirAll(dir, 0o700))
		manager, err := devices.New(devices.Options{Dir: dir})
		require.NoError(t, err)
		addFeatures(o, func(h *feature.Host) []feature.Feature { return []feature.Feature{manager.Feature(h)} })
	},
	"eviction": func(t *testing.T, o *node.Options) {
		manager, err := eviction.New(eviction.Options{Observer: &memory{}, Policy: pressure.Policy{
			Thresholds: []pressure.Threshold{{Signal: pressure.MemoryAvailable, Below: pressure.Amount{Value: 100}}}, Hold: pressure.DefaultHold,
		}})
		require.NoError(t, err)
		addFeatures(o, func(h *feature.Host) []feature.Feature {
			return []feature.Feature{manager.Feature(h, eviction.HostOptions{NodeName: o.NodeName})}
		})
	},
	"hostneeds": func(_ *testing.T, o *node.Options) {
		needs := hostneeds.New(hostneeds.Options{Root: o.Root, AppArmor: func() bool { return false }})
		addFeatures(o, func(*feature.Host) []feature.Feature { return []feature.Feature{needs} })
	},
	"loglinks": func(t *testing.T, o *node.Options) {
		dir, logs := filepath.Join(o.Root, "containers"), filepath.Join(o.Root, "logs")
		addFeatures(o, func(h *feature.Host) []feature.Feature {
			links, err := loglinks.New(h, loglinks.Options{Dir: dir, Logs: logs})
			require.NoError(t, err)
			return []feature.Feature{links}
		})
	},
	"shutdown": func(_ *testing.T, o *node.Options) {
		if o.OnShutdown == node.StopPods {
			o.ShutdownClasses = []shutdown.Class{{Grace: 10 * time.Minute}}
		}
	},
	"updates": func(t *testing.T, o *node.Options) {
		u, err := updates.New(updates.Options{Boot: "a boot"})
		require.NoError(t, err)
		o.Sources = u.Sources(o.Sources...)
		addFeatures(o, u.Features)
	},
}

// notAdded are the other folders of package node, with the reason.
var notAdded = map[string]string{
	"admission": "rules of the feature gate",
	"feature":   "the interface of features",
	"hotplug":   "for Linux, and needs device nodes; its own tests run a node with the feature",
	"images":    "in node.FeatureNames",
	"internal":  "in node.FeatureNames",
	"oomwatch":  "waits for the kernel's log, which stops the virtual time; its own tests run the feature",
	"podsapi":   "its socket stops the virtual time; its own example runs a node with the feature",
	"pressure":  "rules of the feature eviction",
	"testdata":  "no code",
	"volumes":   "in node.FeatureNames",
}

func addFeatures(o *node.Options, more func(*feature.Host) []feature.Feature) {
	before := o.Features
	o.Features = func(h *feature.Host) (all []feature.Feature) {
		if before != nil {
			all = before(h)
		}
		return append(all, more(h)...)
	}
}

// with makes a reference agent that has added features, too.
func with(t *testing.T, names ...string) nodetest.Assemble {
	return func(o node.Options) (nodetest.Assembly, error) {
		for _, name := range names {
			addedFeatures[name](t, &o)
		}
		return nodetest.ReferenceAgent(o)
	}
}

// A node with all added features, and a node that lacks a single one of them, do everything else as
// before.
func TestEachAddedFeatureCanBeLeftOut(t *testing.T) {
	all := slices.Sorted(maps.Keys(addedFeatures))
	check := func(t *testing.T, names []string) {
		life(t, with(t, names...))
		for seed := range casetest.Rounds[uint64](20) {
			require.NoError(t, play(t, with(t, names...), nodetest.Schedule(seed)).Err)
		}
	}
	t.Run("with all", func(t *testing.T) { t.Parallel(); check(t, all) })
	for i, name := range all {
		t.Run("without "+name, func(t *testing.T) {
			casetest.SkipUnlessChosen(t)
			t.Parallel()
			check(t, slices.Delete(slices.Clone(all), i, i+1))
		})
	}
}

// TestEachFeatureIsLeftOutInATest fails for a new folder of package node that is in no list above.
func TestEachFeatureIsLeftOutInATest(t *testing.T) {
	entries, err := os.ReadDir("../node")
	require.NoError(t, err)
	for _, entry := range entries {
		if name := entry.Name(); entry.IsDir() && addedFeatures[name] == nil && notAdded[name] == "" {
			t.Errorf("the folder %s: add the feature to addedFeatures, or the folder with a reason to notAdded", name)
		}
	}
}

// groupNames is a cgroups.Writer that knows which cgroups exist.
type groupNames struct {
	mu    sync.Mutex
	names map[string]bool
}

func (g *groupNames) Ensure(name string, _ cgroups.Values) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.names == nil {
		g.names = map[string]bool{}
	}
	g.names[name] = true
	return nil
}

func (g *groupNames) Limits(name string) (cgroups.Values, bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return cgroups.Values{}, g.names[name] || name == "/", nil
}

func (*groupNames) Kill(context.Context, string) error { return nil }

func (g *groupNames) Remove(_ context.Context, name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.names, name)
	return nil
}
