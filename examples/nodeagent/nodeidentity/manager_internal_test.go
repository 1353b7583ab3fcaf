// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
)

// life is the life of the certificates in these tests: a loop that looks at the addresses every ten
// seconds makes long lives slow.
const life = 2 * 24 * time.Hour

// managed runs a Manager in a bubble.
type managed struct {
	*testing.T
	*Manager
	cluster *cluster
	dir     string
	stop    func()
}

// manage starts a Manager for the client certificate of node "n", with changes of its options.
func manage(t *testing.T, c *cluster, dir string, change func(*Options)) *managed {
	t.Helper()
	store, err := NewStore(dir, ClientPrefix)
	require.NoError(t, err)
	opts := Options{
		Store: store, Signer: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Template:  func() (Template, bool) { return ClientTemplate("n"), true },
		Requester: c.requester,
	}
	change(&opts)
	m, err := New(opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	ended := false
	h := &managed{t, m, c, dir, func() {
		if !ended {
			ended = true
			cancel()
			require.NoError(t, <-done)
		}
	}}
	t.Cleanup(h.stop)
	return h
}

func same(*Options) {}

// leaf returns the current certificate's serial number, or "none".
func (h *managed) leaf() string {
	if pair := h.Current(); pair != nil {
		return pair.Leaf.SerialNumber.String()
	}
	return "none"
}

// stored checks that the current certificate is the stored one.
func (h *managed) stored() {
	h.Helper()
	pair, err := h.Store.Load()
	require.NoError(h, err)
	assert.Equal(h, h.leaf(), pair.Leaf.SerialNumber.String())
}

// TestRotation: over ten lives the certificate is always usable, and is replaced after about 80 % of
// each, with a new key.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var issued atomic.Int32
		var ages []time.Duration
		h := manage(t, newCluster(t), t.TempDir(), func(o *Options) {
			o.Observer.Issued = func(time.Time) { issued.Add(1) }
			o.Observer.Replaced = func(age time.Duration) { ages = append(ages, age) }
		})
		assert.Nil(t, h.Current())
		changed := h.Changed()
		synctest.Wait()
		<-changed
		h.stored()
		keys := map[string]bool{}
		use := func() {
			synctest.Wait()
			pair := h.Current()
			require.NotNil(t, pair)
			keys[fmt.Sprint(pair.Leaf.PublicKey)] = true
		}
		use()
		for range 10 * 4 * 2 {
			time.Sleep(6 * time.Hour)
			use() // the last certificate may be new
		}
		h.stored()
		created, _ := h.cluster.counts()
		assert.InDelta(t, 12, created, 3, "certificates")
		assert.Len(t, keys, created)
		assert.EqualValues(t, created, issued.Load())
		synctest.Wait()
		require.Len(t, ages, created-1, "the first certificate replaces none")
		for _, age := range ages {
			assert.InDelta(t, 0.8*48, age.Hours(), 0.1*48+0.1, "70 % to 90 % of two days")
		}
	})
}

func TestOnlyExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := manage(t, newCluster(t), t.TempDir(), func(o *Options) { o.onlyExpired = true })
		synctest.Wait()
		first := h.leaf()
		time.Sleep(life - time.Minute)
		assert.Equal(t, first, h.leaf())
		time.Sleep(2 * time.Minute)
		assert.NotEqual(t, first, h.leaf())
		assert.NotEqual(t, "none", h.leaf())
	})
}

// Upstream (kubernetes/kubernetes#92676): after the client certificate has expired, the kubelet exits,
// and may hang after its restart. Here the same process requests another with the bootstrap
// credentials, however long the API server was gone.
func TestUpstream92676AnExpiredCertificateIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var withCurrent, withBootstrap atomic.Int32
		h := manage(t, c, t.TempDir(), func(o *Options) {
			o.Requester = func(current *tls.Certificate, _ error) (Requester, error) {
				if current == nil {
					withBootstrap.Add(1)
				} else {
					withCurrent.Add(1)
				}
				return c, nil
			}
		})
		synctest.Wait()
		first := h.leaf()
		assert.EqualValues(t, 1, withBootstrap.Load())
		down := errors.New("connection refused")
		c.do(func() { c.create = func(int) error { return down } })
		time.Sleep(life - time.Minute)
		assert.Equal(t, first, h.leaf(), "the old certificate is used to its end")
		assert.Positive(t, withCurrent.Load())
		time.Sleep(24 * time.Hour)
		assert.Equal(t, "none", h.leaf(), "a certificate that has expired is not presented")
		before := withBootstrap.Load()
		time.Sleep(10 * longestBackoff)
		assert.Greater(t, withBootstrap.Load(), before+3, "the attempts go on")
		c.do(func() { c.create = func(int) error { return nil } })
		time.Sleep(2 * longestBackoff)
		assert.NotEqual(t, "none", h.leaf())
		h.stored()
	})
}

// Upstream (kubernetes/kubernetes#77489): where no controller approves a serving certificate, requests
// pile up. Here one request is open, also across restarts.
func TestUpstream77489OneRequestIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dir := newCluster(t), t.TempDir()
		approve := c.decide
		c.decide = func(int, *certificatesv1.CertificateSigningRequest) ([]byte, error) { return nil, nil }
		var last error
		for range 5 {
			h := manage(t, c, dir, func(o *Options) { o.Observer.Failed = func(err error) { last = err } })
			time.Sleep(2 * time.Hour)
			h.stop()
		}
		require.ErrorIs(t, last, errPending)
		created, calls := c.counts()
		assert.Equal(t, 1, created)
		assert.Greater(t, calls, 5)

		h := manage(t, c, dir, same)
		time.Sleep(time.Hour)
		c.do(func() { c.decide = approve })
		synctest.Wait()
		assert.NotEqual(t, "none", h.leaf(), "the approval is seen at once")
		created, _ = c.counts()
		assert.Equal(t, 1, created)
		assert.NoFileExists(t, filepath.Join(dir, "kubelet-client-request.pem"))
	})
}

// TestHostileClusters: whatever the API server answers, the old certificate is used on, the attempts go
// on, requests are bounded, and a good answer ends it.
func TestHostileClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		decide func(c *cluster, csr []byte) ([]byte, error)
		most   int // objects in four hours
	}{
		"denies":     {func(*cluster, []byte) ([]byte, error) { return nil, fmt.Errorf("%w: denied", ErrRefused) }, 30},
		"deletes":    {func(*cluster, []byte) ([]byte, error) { return nil, ErrGone }, 1},
		"fails":      {func(*cluster, []byte) ([]byte, error) { return nil, errors.New("internal error") }, 1},
		"sends junk": {func(*cluster, []byte) ([]byte, error) { return []byte("junk"), nil }, 30},
		"is for other keys": {func(c *cluster, _ []byte) ([]byte, error) {
			r, err := newRequest(ClientTemplate("n"))
			if err != nil {
				return nil, err
			}
			return c.sign(r.csr)
		}, 30},
		"has expired": {func(c *cluster, csr []byte) ([]byte, error) {
			c.life = -time.Second
			defer func() { c.life = life }()
			return c.sign(csr)
		}, 30},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				good := c.decide
				h := manage(t, c, t.TempDir(), same)
				synctest.Wait()
				first := h.leaf()
				require.NotEqual(t, "none", first)
				c.do(func() {
					c.decide = func(_ int, r *certificatesv1.CertificateSigningRequest) ([]byte, error) {
						return tc.decide(c, r.Spec.Request)
					}
				})
				time.Sleep(time.Until(h.Current().Leaf.NotAfter.Add(-life / 10)))
				before, callsBefore := c.counts()
				time.Sleep(4 * time.Hour)
				created, calls := c.counts()
				assert.LessOrEqual(t, created-before, tc.most)
				assert.Greater(t, calls-callsBefore, 8)
				assert.Equal(t, first, h.leaf())
				h.stored()
				c.do(func() { c.decide = good })
				time.Sleep(2 * longestRefusal)
				assert.NotEqual(t, first, h.leaf())
				h.stored()
			})
		})
	}
}

// TestCertificatesThatLiveForSeconds are not requested in a hot loop.
func TestCertificatesThatLiveForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.life = 5 * time.Second
		manage(t, c, t.TempDir(), same)
		time.Sleep(time.Hour)
		created, _ := c.counts()
		assert.InDelta(t, 60, created, 2)
	})
}

// TestAddressesOfTheServingCertificate: nothing is requested without an address, another address
// replaces the certificate at once, and a change while a request is open abandons the request.
func TestAddressesOfTheServingCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var addresses atomic.Value
		set := func(ips ...string) {
			list := []v1.NodeAddress{{Type: v1.NodeHostName, Address: "n"}}
			for _, ip := range ips {
				list = append(list, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
			}
			addresses.Store(list)
		}
		set()
		h := manage(t, c, t.TempDir(), func(o *Options) {
			o.Signer = certificatesv1.KubeletServingSignerName
			o.Template = func() (Template, bool) { return ServingTemplate("n", addresses.Load().([]v1.NodeAddress)) }
		})
		time.Sleep(time.Hour)
		created, _ := c.counts()
		assert.Zero(t, created)
		set("10.0.0.1")
		time.Sleep(templateInterval)
		synctest.Wait()
		require.NotNil(t, h.Current())
		require.NoError(t, h.Current().Leaf.VerifyHostname("10.0.0.1"))
		require.NoError(t, h.Current().Leaf.VerifyHostname("n"))

		good := c.decide
		c.do(func() {
			c.decide = func(int, *certificatesv1.CertificateSigningRequest) ([]byte, error) { return nil, nil }
		})
		time.Sleep(time.Hour)
		set("10.0.0.1", "10.0.0.2")
		time.Sleep(time.Minute)
		set("10.0.0.2")
		time.Sleep(time.Minute)
		require.NoError(t, h.Current().Leaf.VerifyHostname("10.0.0.1"), "the old one is served meanwhile")
		c.do(func() { c.decide = good })
		time.Sleep(templateInterval)
		require.NoError(t, h.Current().Leaf.VerifyHostname("10.0.0.2"))
		require.Error(t, h.Current().Leaf.VerifyHostname("10.0.0.1"))
		created, _ = c.counts()
		assert.Equal(t, 3, created)
	})
}

// TestADiskThatCannotBeWritten: the certificate is used, one request was made, and the certificate is
// stored when the disk is well.
func TestADiskThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "pki")
		c := newCluster(t)
		store, err := NewStore(dir, ClientPrefix)
		require.NoError(t, err)
		require.NoError(t, os.Remove(dir))
		require.NoError(t, os.WriteFile(dir, nil, 0o600))
		h := manage(t, c, filepath.Join(t.TempDir(), "other"), func(o *Options) { o.Store = store })
		time.Sleep(2 * time.Hour)
		assert.NotEqual(t, "none", h.leaf())
		created, _ := c.counts()
		assert.Equal(t, 1, created)
		require.NoError(t, os.Remove(dir))
		require.NoError(t, os.Mkdir(dir, 0o700))
		time.Sleep(2 * longestBackoff)
		h.stored()
		time.Sleep(2 * time.Hour)
		created, _ = c.counts()
		assert.Equal(t, 1, created)
	})
}

// TestASeed is stored, used and replaced at once. A store with a certificate of its own ignores it.
func TestASeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dir := newCluster(t), t.TempDir()
		i := c.issue(t, ClientTemplate("n"))
		seed, err := tls.X509KeyPair(i.chain, i.key)
		require.NoError(t, err)
		serial := seed.Leaf.SerialNumber.String()
		down := errors.New("down")
		c.create = func(int) error { return down }
		h := manage(t, c, dir, func(o *Options) { o.initial = &seed })
		assert.Equal(t, serial, h.leaf())
		h.stored()
		c.do(func() { c.create = func(int) error { return nil } })
		time.Sleep(time.Minute)
		second := h.leaf()
		assert.NotEqual(t, serial, second)
		h.stop()
		h = manage(t, c, dir, func(o *Options) { o.initial = &seed })
		time.Sleep(time.Hour)
		assert.Equal(t, second, h.leaf())
	})
}

func TestNewRefusesWrongOptions(t *testing.T) {
	store, err := NewStore(t.TempDir(), ClientPrefix)
	require.NoError(t, err)
	full := Options{Store: store, Signer: "s", Template: func() (Template, bool) { return Template{}, false }, Requester: (&cluster{}).requester}
	for want, change := range map[string]func(*Options){
		"Store":     func(o *Options) { o.Store = nil },
		"Signer":    func(o *Options) { o.Signer = "" },
		"Template":  func(o *Options) { o.Template = nil },
		"Requester": func(o *Options) { o.Requester = nil },
	} {
		opts := full
		change(&opts)
		_, err := New(opts)
		assert.ErrorContains(t, err, "Options."+want)
	}
	_, err = New(full)
	require.NoError(t, err)
}
