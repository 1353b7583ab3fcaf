// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

func TestDemandsOnTheMachine(t *testing.T) {
	fits := fstest.MapFS{"sys/fs/cgroup/cgroup.controllers": {}, "proc/swaps": {Data: []byte("Filename Type Size Used Priority\n")}}
	other := fstest.MapFS{"proc/swaps": {Data: []byte("Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n")}}
	for name, value := range kernelDefaults {
		fits["proc/sys/"+name] = &fstest.MapFile{Data: []byte(value + "\n")}
		other["proc/sys/"+name] = &fstest.MapFile{Data: []byte("7\n")}
	}
	all, none := hostFlags{kernelDefaults: true, noSwap: true, noCgroupV1: true}, hostFlags{}
	require.NoError(t, all.check(fits))
	require.NoError(t, none.check(other))
	err := all.check(other)
	for _, want := range []string{`--protect-kernel-defaults: sysctl kernel.keys.root_maxbytes is "7": want 25000000`, "--fail-swap-on: there is swap, /dev/sda2", "--fail-cgroupv1"} {
		require.ErrorContains(t, err, want)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), len(kernelDefaults)+2)
}

// The verbosity of the configuration file, and of a request, is that of the agent's log and of klog.
func TestVerbosity(t *testing.T) {
	f, err := configured(t, "logging: {verbosity: 4}\n")
	require.NoError(t, err)
	require.Equal(t, 4, f.verbosity)
	f, err = configured(t, "logging: {verbosity: 4}\n", "-v", "2")
	require.NoError(t, err)
	require.Equal(t, 2, f.verbosity)

	v := newVerbosity(2)
	defer v.set(0) // klog's is global
	sink := klogSink{zap.NewNop().Sugar(), &v.n}
	for n, details := range map[int]bool{0: false, 1: true, 3: true} {
		v.set(n)
		require.Equal(t, details, v.Enabled(zap.DebugLevel))
		require.True(t, v.Enabled(zap.InfoLevel))
		require.True(t, sink.Enabled(n))
		require.False(t, sink.Enabled(n+1))
		require.True(t, klog.V(klog.Level(n)).Enabled())
		require.False(t, klog.V(klog.Level(n+1)).Enabled())
	}
}
