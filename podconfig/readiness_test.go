// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

func TestReadiness(t *testing.T) {
	r := podconfig.NewReadiness("file", "api")
	r.Consumed(from("file", update(opAdd)))
	require.False(t, r.Ready("file"), "any update is not enough")
	r.Consumed(synced(from("file", update(opRemove))))
	require.True(t, r.Ready("file"))
	require.False(t, r.AllReady())
	r.Consumed(synced(update(opAdd)))
	require.True(t, r.AllReady())

	r.Register("file", "http")
	require.True(t, r.Ready("file"), "registering again changes nothing")
	require.False(t, r.AllReady(), "a further source is waited for")
	r.Drop("http")
	require.True(t, r.AllReady())
	r.Drop("file")
	require.False(t, r.Ready("file"))
	r.Register("file")
	require.False(t, r.AllReady(), "a dropped source starts anew")

	require.False(t, r.Ready("unknown"))
	require.True(t, podconfig.NewReadiness().AllReady())
}
