// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func TestNewWorldNamesTheBadField(t *testing.T) {
	_, err := fake.NewWorld(fake.WorldOptions{Name: "a://b"})
	require.ErrorContains(t, err, "WorldOptions.Name")
}

func TestIPs(t *testing.T) {
	n := newNode(t, fake.WorldOptions{})
	for i, want := range []string{"10.88.0.1", "10.88.0.2", "10.88.0.3"} {
		uid := types.UID(rune('a' + i))
		n.sandbox(uid, 0)
		assert.Equal(t, []string{want}, n.status(uid).Current().IPs)
	}
	spec := sandboxSpec("u", 0)
	spec.HostNetwork = true
	_, err := n.RunSandbox(t.Context(), spec)
	require.NoError(t, err)
	assert.Equal(t, []string{"192.0.2.1"}, n.status("u").Current().IPs)
}

// More sandboxes than the last byte of an address can count.
func TestIPsCarryOver(t *testing.T) {
	n := newNode(t, fake.WorldOptions{})
	var last runtime.SandboxID
	for i := range uint32(300) {
		last = n.sandbox("u", i)
	}
	cur := n.status("u").Current()
	assert.Equal(t, last, cur.ID)
	assert.Equal(t, []string{"10.88.1.44"}, cur.IPs)
}

func TestIPsOfANetworkAreReusedWhenFree(t *testing.T) {
	n := newNode(t, fake.WorldOptions{PodCIDR: netip.MustParsePrefix("10.1.2.0/30")})
	var got []string
	first := n.sandbox("keeps", 0)
	for i := range uint32(4) {
		id := n.sandbox("u", i)
		got = append(got, n.status("u").Current().IPs...)
		require.NoError(t, n.RemoveSandbox(t.Context(), id))
	}
	assert.Equal(t, []string{"10.1.2.2", "10.1.2.3", "10.1.2.2", "10.1.2.3"}, got)
	require.NoError(t, n.RemoveSandbox(t.Context(), first))
	for _, bad := range []string{"10.1.2.1/24", "10.1.2.0/31", "fd00::/64"} {
		_, err := fake.NewWorld(fake.WorldOptions{PodCIDR: netip.MustParsePrefix(bad)})
		require.ErrorContains(t, err, bad)
	}
}

func TestListSaysNoMoreThanTheSeamPromises(t *testing.T) {
	n := newNode(t, fake.WorldOptions{})
	n.run(n.sandbox("u", 0), "web", 3)
	c := n.listed(runtime.ListOptions{})["u"].Containers[0]
	assert.Equal(t, runtime.ContainerStatus{ID: c.ID, Name: "web", Sandbox: c.Sandbox, State: runtime.StateRunning}, c)
}

func TestForeignContainerIDsAreNotFound(t *testing.T) {
	n := newNode(t, fake.WorldOptions{Name: "mine"})
	id := n.run(n.sandbox("u", 0), "web", 0)
	assert.Equal(t, "mine", id.Runtime)
	id.Runtime = "other"
	require.ErrorIs(t, n.StopContainer(t.Context(), id, 0), runtime.ErrNotFound)
	assert.Equal(t, runtime.StateRunning, n.latest("u", "web").State)
}
