// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/podsapi"
)

// gateFlags are the feature gates of the kubelet that this program knows.
type gateFlags struct {
	values map[string]string

	podsAPI bool
}

func (g *gateFlags) register(set *pflag.FlagSet) {
	set.StringToStringVar(&g.values, "feature-gates", nil, "feature gates of the kubelet, as `name=bool,...`; PodsAPI=true serves the pods to root on ROOT-DIR/pods-api/pods-api.sock; all other gates are logged, and have no effect")
}

// complete reads the known gates.
func (g *gateFlags) complete(root string) error {
	for _, name := range slices.Sorted(maps.Keys(g.values)) {
		on, err := strconv.ParseBool(g.values[name])
		if err != nil {
			return fmt.Errorf("--feature-gates %s=%s: want true or false", name, g.values[name])
		}
		if name == "PodsAPI" {
			g.podsAPI = on
		}
	}
	if g.podsAPI { // the path of the socket may be too long
		if _, err := podsapi.New(&feature.Host{Table: feature.NewTable(), Root: root}); err != nil {
			return fmt.Errorf("--feature-gates PodsAPI=true, --root-dir: %w", err)
		}
	}
	return nil
}

// tell logs the gates without effect.
func (g *gateFlags) tell(log *zap.Logger) {
	for _, name := range slices.Sorted(maps.Keys(g.values)) {
		if name != "PodsAPI" {
			log.Info("a feature gate has no effect in this agent", zap.String("gate", name), zap.String("value", g.values[name]))
		}
	}
}

// features returns the features of the gates, nil without such a gate.
func (g *gateFlags) features(log *zap.Logger) features {
	if !g.podsAPI {
		return nil
	}
	return func(h *feature.Host) []feature.Feature {
		pods, err := podsapi.New(h)
		if err != nil { // complete has checked it
			log.Error("--feature-gates PodsAPI=true: the pods API is not served", zap.Error(err))
			return nil
		}
		return []feature.Feature{pods}
	}
}
