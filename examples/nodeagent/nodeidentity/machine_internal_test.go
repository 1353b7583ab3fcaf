// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestDeadline(t *testing.T) {
	begin := time.Unix(0, 0)
	end := begin.Add(100 * time.Hour)
	for r, want := range map[float64]time.Duration{0: 70 * time.Hour, 0.5: 80 * time.Hour, 0.999999: 90 * time.Hour} {
		assert.WithinDuration(t, begin.Add(want), Deadline(begin, end, r), time.Second)
	}
}

// TestMachine checks each state with each event.
func TestMachine(t *testing.T) {
	want := ClientTemplate("n")
	other := Template{CommonName: "system:node:n", Organization: "system:nodes", IPs: []string{"10.0.0.1"}}
	now := time.Unix(1_000_000, 0)
	leaf := func(end time.Duration) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: want.CommonName, Organization: []string{want.Organization}}, NotAfter: now.Add(end)}
	}
	for _, tc := range []struct {
		name  string
		m     machine
		want  *Template
		phase Phase
		at    time.Duration
		never bool
	}{
		{name: "none, and no address is known", phase: None, never: true},
		{name: "none", want: &want, phase: None},
		{name: "none, after a failure", m: machine{retryAt: now.Add(2 * time.Second)}, want: &want, phase: None, at: 2 * time.Second},
		{name: "valid", m: machine{leaf: leaf(time.Hour), due: now.Add(time.Minute)}, want: &want, phase: Valid, at: time.Minute},
		{name: "valid, and no address is known", m: machine{leaf: leaf(time.Hour), due: now.Add(time.Minute)}, phase: Valid, never: true},
		{name: "an address is new", m: machine{leaf: leaf(time.Hour), due: now.Add(time.Minute)}, want: &other, phase: Due},
		{name: "due", m: machine{leaf: leaf(time.Hour), due: now}, want: &want, phase: Due},
		{name: "due, after a failure", m: machine{leaf: leaf(time.Hour), due: now, retryAt: now.Add(time.Second)}, want: &want, phase: Due, at: time.Second},
		{name: "due, and issued a moment ago", m: machine{leaf: leaf(time.Hour), due: now, retryAt: now.Add(restBetween)}, want: &want, phase: Due, at: restBetween},
		{name: "expired", m: machine{leaf: leaf(0), due: now.Add(-time.Hour)}, want: &want, phase: Expired},
		{name: "expired before it was due", m: machine{leaf: leaf(0), due: now.Add(time.Hour)}, want: &want, phase: Expired},
		{name: "expired, after a failure", m: machine{leaf: leaf(0), retryAt: now.Add(time.Second)}, want: &want, phase: Expired, at: time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.phase, tc.m.phase(now, tc.want))
			at, ok := tc.m.nextAttempt(now, tc.want)
			assert.Equal(t, !tc.never, ok)
			if ok {
				assert.Equal(t, now.Add(tc.at), at)
			}
		})
	}
}

// TestMachineNeverStormsAndNeverSleepsIn plays random histories: two attempts are never closer than
// the first back-off, no wait is longer than the longest, and without failures a certificate is
// replaced before it expires.
func TestMachineNeverStormsAndNeverSleepsIn(t *testing.T) {
	want := ClientTemplate("n")
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		m, now, last := machine{}, time.Unix(0, 0), time.Unix(-1000, 0)
		for range 60 {
			at, ok := m.nextAttempt(now, &want)
			require.True(t, ok)
			if at.After(now) {
				if m.failures > 0 {
					require.LessOrEqual(t, at.Sub(now), 2*longestRefusal)
				}
				now = at
			}
			require.GreaterOrEqual(t, now.Sub(last), firstBackoff, "seed %d", seed)
			if m.leaf != nil && m.failures == 0 && m.leaf.NotAfter.Sub(m.leaf.NotBefore) > time.Hour {
				require.Equal(t, Due, m.phase(now, &want), "seed %d", seed)
			}
			last = now
			now = now.Add(time.Duration(random.Int64N(int64(20*time.Minute))) * time.Duration(random.IntN(2)))
			if random.IntN(3) > 0 {
				m.failed(now, random.IntN(2) == 0, random.Float64())
				last = now
				continue
			}
			end := now.Add(time.Duration(random.Int64N(int64(1000 * time.Hour)))) // perhaps a certificate that lives for seconds
			m.adopt(&x509.Certificate{Subject: pkix.Name{CommonName: want.CommonName, Organization: []string{want.Organization}}, NotBefore: now, NotAfter: end}, Deadline(now, end, random.Float64()))
			m.issued(now)
			last = now
		}
	}
}

func TestServingTemplate(t *testing.T) {
	_, ok := ServingTemplate("n", nil)
	assert.False(t, ok)
	_, ok = ServingTemplate("n", []v1.NodeAddress{{Type: v1.NodeHostName, Address: "n"}})
	assert.False(t, ok, "no signer issues a certificate without an address")
	got, ok := ServingTemplate("n", []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "10.0.0.2"}, {Type: v1.NodeExternalIP, Address: "10.0.0.1"}, {Type: v1.NodeInternalIP, Address: "10.0.0.2"},
		{Type: v1.NodeInternalIP, Address: "fd00:0::1"}, {Type: v1.NodeHostName, Address: "n"}, {Type: v1.NodeInternalDNS, Address: "a.local"},
		{Type: v1.NodeHostName, Address: "10.0.0.3"}, {Type: v1.NodeExternalDNS, Address: "x.example"}, {Type: v1.NodeExternalDNS, Address: ""}, {Type: v1.NodeInternalIP, Address: "junk"},
	})
	assert.True(t, ok)
	assert.Equal(t, Template{
		CommonName: "system:node:n", Organization: "system:nodes",
		DNSNames: []string{"a.local", "n", "x.example"}, IPs: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"},
	}, got)
}

// TestMissing: a name, an organization or an address that is missing is noticed, and more of them do
// no harm.
func TestMissing(t *testing.T) {
	s := newSigner(t)
	want, _ := ServingTemplate("n", []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeHostName, Address: "n"}})
	more, _ := ServingTemplate("n", []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeInternalIP, Address: "10.0.0.2"}, {Type: v1.NodeHostName, Address: "n"}, {Type: v1.NodeInternalDNS, Address: "m"}})
	leafOf := func(t2 Template) *x509.Certificate {
		i := s.issue(t, t2)
		pair, err := (request{key: i.key}).pair(i.chain, t2, time.Now())
		require.NoError(t, err)
		return pair.Leaf
	}
	assert.Empty(t, want.Missing(leafOf(want)))
	assert.Empty(t, want.Missing(leafOf(more)))
	assert.Equal(t, `name "m"`, more.Missing(leafOf(want)))
	more.DNSNames = want.DNSNames
	assert.Equal(t, `address "10.0.0.2"`, more.Missing(leafOf(want)))
	assert.Equal(t, `common name "system:node:m"`, ClientTemplate("m").Missing(leafOf(want)))
	assert.Equal(t, `organization "o"`, Template{CommonName: want.CommonName, Organization: "o"}.Missing(leafOf(want)))
}
