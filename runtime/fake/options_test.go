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
	for field, opts := range map[string]fake.WorldOptions{
		"WorldOptions.Name":   {Name: "a://b"},
		"WorldOptions.NodeIP": {NodeIP: "localhost"},
		"WorldOptions.PodIPs": {PodIPs: netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), 33)},
	} {
		_, err := fake.NewWorld(opts)
		require.ErrorContains(t, err, field)
	}
}

func TestIPs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		prefix string
		want   []string
	}{
		{"default", "", []string{"10.88.0.1", "10.88.0.2", "10.88.0.3"}},
		{"masked, and round again", "10.1.2.77/30", []string{"10.1.2.77", "10.1.2.78", "10.1.2.79", "10.1.2.77"}},
		{"a single address", "10.1.2.3/32", []string{"10.1.2.3", "10.1.2.3"}},
		{"IPv6", "fd00::/64", []string{"fd00::1", "fd00::2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := fake.WorldOptions{}
			if tt.prefix != "" {
				opts.PodIPs = netip.MustParsePrefix(tt.prefix)
			}
			n := newNode(t, opts)
			for i, want := range tt.want {
				uid := types.UID(rune('a' + i))
				n.sandbox(uid, 0)
				assert.Equal(t, []string{want}, n.status(uid).Current().IPs)
			}
		})
	}
	n := newNode(t, fake.WorldOptions{NodeIP: "198.51.100.7"})
	spec := sandboxSpec("u", 0)
	spec.HostNetwork = true
	_, err := n.RunSandbox(t.Context(), spec)
	require.NoError(t, err)
	assert.Equal(t, []string{"198.51.100.7"}, n.status("u").Current().IPs)
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
