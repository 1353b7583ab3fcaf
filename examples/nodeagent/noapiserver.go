// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
)

// The types and functions in this file replace those of a program with API servers. A program built for
// small nodes has neither these flags nor the parts that the flags configure.

type (
	configFlags   struct{}
	gateFlags     struct{}
	hostFlags     struct{}
	identityFlags struct{}
	linkFlags     struct{}
	pluginFlags   struct{}
	statusFlags   struct{}

	identity struct{}
)

func (*configFlags) register(*pflag.FlagSet)    {}
func (*configFlags) apply(*pflag.FlagSet) error { return nil }
func (*configFlags) tell(*zap.Logger)           {}

func (*gateFlags) register(*pflag.FlagSet)       {}
func (*gateFlags) complete(string) error         { return nil }
func (*gateFlags) tell(*zap.Logger)              {}
func (*gateFlags) features(*zap.Logger) features { return nil }

func (*hostFlags) register(*pflag.FlagSet)     {}
func (*hostFlags) complete(*serverFlags) error { return nil }
func (*hostFlags) check(fs.FS) error           { return nil }
func (*hostFlags) profile(bool)                {}

func (*identityFlags) register(*pflag.FlagSet) {}
func (*identityFlags) complete(*flags) error   { return nil }

func (*linkFlags) register(*pflag.FlagSet)       {}
func (*linkFlags) complete(string, string) error { return nil }
func linkFeatures(flags, *zap.Logger) features   { return nil }

func (*pluginFlags) register(*pflag.FlagSet)                                {}
func (*pluginFlags) check(bool) error                                       { return nil }
func (*pluginFlags) keyring(*metrics, *zap.Logger) (runtime.Keyring, error) { return nil, nil }

func (*statusFlags) register(*pflag.FlagSet)       {}
func (*statusFlags) complete(*pflag.FlagSet) error { return nil }

// receiveKlog and setKlogVerbosity do nothing, because no package of this program logs through klog.
func receiveKlog(*zap.Logger, *verbosity) {}
func setKlogVerbosity(int)                {}

func joinCluster(flags, news, *zap.Logger) (*membership, error) {
	return nil, errors.New("--kubeconfig: this program was built without API servers (tag noapiserver)")
}

func newServer(_ context.Context, f flags, _ serverParts) (func(context.Context), error) {
	if f.server.port != 0 {
		return nil, errors.New("--port: this program was built without API servers (tag noapiserver)")
	}
	return func(context.Context) {}, nil
}

func newHealthz(_ context.Context, f flags, _ serverParts) (func(context.Context), error) {
	if f.server.healthzPort != 0 {
		return nil, errors.New("--healthz-port: this program was built without API servers (tag noapiserver)")
	}
	return func(context.Context) {}, nil
}

func usageHandler(*collector) (http.Handler, error) { return http.NotFoundHandler(), nil }
