// SPDX-License-Identifier: Apache-2.0

package credentialplugin

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/registry"
)

// A pull waits for a minute at most, also if all runs of the plug-in hang.
func TestRunsThatHangDelayAPullForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		p := newPlugin(Options{Dir: "/nowhere", Ran: func(_ string, took time.Duration, err error) {
			require.Equal(t, runPatience, took)
			told = err
		}}, Provider{Name: "p", MatchImages: []string{"r.example"}})
		for range maxRuns {
			p.runs <- struct{}{}
		}
		image, _ := registry.Of("r.example/a")
		require.Empty(t, p.find(t.Context(), image))
		require.ErrorIs(t, told, errPatience)
	})
}

// A run that takes too long is killed, whatever it ignores.
func TestARunIsKilledAtItsDeadline(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p"), []byte("#!/bin/sh\ntrap '' TERM INT HUP\nwhile :; do sleep 1; done\n"), 0o755))
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errPatience)
	defer cancel()
	_, err := run(ctx, dir, Provider{Name: "p"}, "r.example/a")
	require.ErrorIs(t, err, errPatience)
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"kind": "CredentialProviderResponse", "apiVersion": "v", "cacheKeyType": "Image", "cacheDuration": "1h", "auth": {"r.example": {"username": "u", "password": "p"}}}`))
	image, _ := registry.Of("r.example/a")
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parseAnswer(Provider{APIVersion: "v", DefaultCacheDuration: time.Hour}, data)
		if err != nil {
			require.Zero(t, a)
			require.Less(t, len(err.Error()), 100, "nothing is quoted")
			return
		}
		require.GreaterOrEqual(t, a.keep, time.Duration(0))
		for _, auth := range covering(a.entries, image) {
			require.NotZero(t, auth)
		}
	})
}
