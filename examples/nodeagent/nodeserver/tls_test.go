// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func TestTLSVersionsAndCiphers(t *testing.T) {
	a := newAuthority(t)
	own := a.pair(same)
	have := func() (*tls.Certificate, error) { return &own, nil }
	weak := []uint16{
		tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
		tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA,
	}
	for _, tc := range []struct {
		name   string
		opts   nodeserver.TLSOptions
		client *tls.Config
		ok     bool
	}{
		{name: "1.3", client: &tls.Config{MinVersion: tls.VersionTLS13}, ok: true},
		{name: "1.2", client: &tls.Config{MaxVersion: tls.VersionTLS12}, ok: true},
		{name: "1.1", client: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}},
		{name: "1.2 with 1.3 as minimum", opts: nodeserver.TLSOptions{MinVersion: tls.VersionTLS13}, client: &tls.Config{MaxVersion: tls.VersionTLS12}},
		{name: "weak ciphers", client: &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: weak}},
		{name: "ciphers of the caller", opts: nodeserver.TLSOptions{CipherSuites: weak[2:3]}, client: &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: weak}, ok: true},
		{name: "no certificate", opts: nodeserver.TLSOptions{Certificate: func() (*tls.Certificate, error) { return nil, errors.New("none") }}, client: &tls.Config{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.opts.Certificate == nil {
				tc.opts.Certificate = have
			}
			tc.opts.ClientAuthorities = a.pool // configurations of single handshakes have the limits, too
			config, err := nodeserver.NewTLSConfig(tc.opts)
			require.NoError(t, err)
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.TLS, server.Config.ErrorLog = config, quiet()
			server.StartTLS()
			defer server.Close()
			tc.client.RootCAs = a.pool()
			tc.client.NextProtos = []string{"h2", "http/1.1"}
			conn, err := tls.Dial("tcp", server.Listener.Addr().String(), tc.client)
			assert.Equal(t, tc.ok, err == nil, "%v", err)
			if err == nil {
				assert.Equal(t, "h2", conn.ConnectionState().NegotiatedProtocol)
				conn.Close()
			}
		})
	}
	_, err := nodeserver.NewTLSConfig(nodeserver.TLSOptions{})
	require.ErrorContains(t, err, "Certificate is required")
	_, err = nodeserver.NewTLSConfig(nodeserver.TLSOptions{Certificate: have, MinVersion: tls.VersionTLS11})
	require.ErrorContains(t, err, "MinVersion")
}

// TestServingFilesAreReloaded replaces the files in the ways that administrators, volumes and tools
// replace files.
func TestServingFilesAreReloaded(t *testing.T) {
	a := newAuthority(t)
	write := func(dir, name string) {
		require.NoError(t, os.MkdirAll(dir, 0o700))
		cert, key := a.pems(name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	}
	for name, replace := range map[string]func(t *testing.T, dir string){
		"remove and create": func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			write(dir, "new")
		},
		"rename the folder": func(t *testing.T, dir string) {
			write(dir+".new", "new")
			require.NoError(t, os.Rename(dir, dir+".old"))
			require.NoError(t, os.Rename(dir+".new", dir))
		},
		"swap a link": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(dir, dir+".old"))
			write(dir+".new", "new")
			require.NoError(t, os.Symlink(dir+".new", dir))
		},
		"one file after the other": func(t *testing.T, dir string) {
			write(dir+".new", "new")
			require.NoError(t, os.Rename(dir+".new/tls.crt", dir+"/tls.crt"))
			current, err := nodeserver.KeyPair(dir+"/tls.crt", dir+"/tls.key", nil)
			require.ErrorContains(t, err, "certificate of the server", "the files do not fit")
			require.Nil(t, current)
			require.NoError(t, os.Rename(dir+".new/tls.key", dir+"/tls.key"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pki")
			write(dir, "old")
			current, err := nodeserver.KeyPair(dir+"/tls.crt", dir+"/tls.key", nil)
			require.NoError(t, err)
			serves := func(want string) {
				t.Helper()
				pair, err := current()
				require.NoError(t, err)
				assert.Equal(t, want, pair.Leaf.Subject.CommonName)
			}
			serves("old")
			cert, err := os.ReadFile(dir + "/tls.crt")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(dir+"/tls.crt", cert[:len(cert)/2], 0o600))
			serves("old")
			require.NoError(t, os.WriteFile(dir+"/tls.crt", cert, 0o600))
			serves("old")
			replace(t, dir)
			serves("new")
		})
	}
}

// TestUnnoticedChangesAreFound: a file with the same size, time and inode is read again after a
// minute.
func TestUnnoticedChangesAreFound(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	cert, key := a.pems("a")
	require.NoError(t, os.WriteFile(dir+"/tls.crt", cert, 0o600))
	require.NoError(t, os.WriteFile(dir+"/tls.key", key, 0o600))
	synctest.Test(t, func(t *testing.T) {
		current, err := nodeserver.KeyPair(dir+"/tls.crt", dir+"/tls.key", nil)
		require.NoError(t, err)
		before, err := os.Stat(dir + "/tls.crt")
		require.NoError(t, err)
		next := append(cert[:0:0], cert...)
		require.NoError(t, os.WriteFile(dir+"/tls.crt", append(next[:len(next)-1], ' '), 0o600)) // still a certificate
		require.NoError(t, os.Chtimes(dir+"/tls.crt", before.ModTime(), before.ModTime()))
		first, err := current()
		require.NoError(t, err)
		time.Sleep(time.Minute - 1)
		same, err := current()
		require.NoError(t, err)
		assert.Same(t, first, same)
		time.Sleep(time.Nanosecond)
		other, err := current()
		require.NoError(t, err)
		assert.NotSame(t, first, other)
	})
}

func TestSelfSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "pki")
		ips := []net.IP{net.IPv4(10, 0, 0, 1), net.ParseIP("fd00::1")}
		open := func() func() *x509.Certificate {
			current, err := nodeserver.SelfSigned(nodeserver.SelfSignedOptions{Dir: dir, Host: "node-1", IPs: func() []net.IP { return ips }})
			require.NoError(t, err)
			return func() *x509.Certificate {
				pair, err := current()
				require.NoError(t, err)
				return pair.Leaf
			}
		}
		current := open()
		first := current()
		roots := x509.NewCertPool()
		roots.AddCert(first)
		for _, name := range []string{"node-1", "10.0.0.1", "fd00::1"} {
			_, err := first.Verify(x509.VerifyOptions{DNSName: name, Roots: roots})
			assert.NoError(t, err, "a client that trusts the file can verify %s", name)
		}
		_, err := first.Verify(x509.VerifyOptions{DNSName: "10.0.0.2", Roots: roots})
		require.Error(t, err)
		info, err := os.Stat(dir + "/kubelet.key")
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode())
		assert.Same(t, first, current())
		assert.Equal(t, first.Raw, open()().Raw, "a restart uses the same certificate")

		life := first.NotAfter.Sub(first.NotBefore)
		time.Sleep(time.Until(first.NotBefore.Add(life*8/10)) - time.Second)
		assert.Same(t, first, current())
		time.Sleep(time.Second)
		second := current()
		assert.NotEqual(t, first.Raw, second.Raw, "the kubelet serves an expired certificate until a restart")
		assert.Equal(t, second.Raw, open()().Raw)

		ips = append(ips, net.IPv4(10, 0, 0, 2))
		time.Sleep(time.Minute)
		third := current()
		require.NoError(t, third.VerifyHostname("10.0.0.2"))
		ips = ips[:1]
		time.Sleep(time.Minute)
		assert.Same(t, third, current(), "an address that is gone does no harm")

		require.NoError(t, os.WriteFile(dir+"/kubelet.key", []byte("half"), 0o600)) // as after a crash
		fourth := open()()
		assert.NotEqual(t, third.Raw, fourth.Raw)
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.WriteFile(dir, nil, 0o600))
		time.Sleep(life)
		assert.NotEqual(t, third.Raw, current().Raw, "a certificate that cannot be stored is used all the same")
	})
	_, err := nodeserver.SelfSigned(nodeserver.SelfSignedOptions{Host: "n"})
	require.ErrorContains(t, err, "required")
}

func TestANodeNamedByItsAddress(t *testing.T) {
	current, err := nodeserver.SelfSigned(nodeserver.SelfSignedOptions{Dir: t.TempDir(), Host: "10.0.0.9", IPs: func() []net.IP { return nil }})
	require.NoError(t, err)
	pair, err := current()
	require.NoError(t, err)
	require.NoError(t, pair.Leaf.VerifyHostname("10.0.0.9"))
}
