// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeConfig writes a kubeconfig with a user.
func writeConfig(t *testing.T, path, server string, ca []byte, user clientcmdapi.AuthInfo) {
	t.Helper()
	out := clientcmdapi.NewConfig()
	out.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	out.AuthInfos["u"] = &user
	out.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	out.CurrentContext = "x"
	require.NoError(t, clientcmd.WriteToFile(*out, path))
}

// TestKubeconfigs: which kubeconfig is used as it is, which certificate is kept valid, and when the
// kubeconfig is written.
func TestKubeconfigs(t *testing.T) {
	s := newSigner(t)
	embedded := func(name string, life time.Duration) clientcmdapi.AuthInfo {
		s.life = life
		i := s.issue(t, Template{CommonName: name, Organization: "system:nodes"})
		return clientcmdapi.AuthInfo{ClientCertificateData: i.chain, ClientKeyData: i.key}
	}
	token := clientcmdapi.AuthInfo{Token: "t0ken"}
	mine, expired := embedded("system:node:n", time.Hour), embedded("system:node:n", -time.Minute)
	for name, tc := range map[string]struct {
		user        *clientcmdapi.AuthInfo // of the kubeconfig; nil: no file
		text        string                 // of the kubeconfig instead
		noBootstrap bool
		onlyExpired bool
		current     bool // the kubeconfig leads to the store
		managed     bool
		written     bool
		seeded      bool
		err         string
	}{
		"none":                           {managed: true, written: true},
		"none, and no bootstrap":         {noBootstrap: true, err: "no such file"},
		"broken":                         {text: "]", managed: true, written: true},
		"without a server":               {text: "apiVersion: v1\nkind: Config\n", managed: true, written: true},
		"a token":                        {user: &token},
		"a certificate of the node":      {user: &mine, managed: true, seeded: true},
		"the same, not to be rotated":    {user: &mine, noBootstrap: true, onlyExpired: true},
		"an expired one of the node":     {user: &expired, managed: true, seeded: true},
		"the store's, not issued yet":    {user: &clientcmdapi.AuthInfo{}, current: true, managed: true},
		"the store's, and no bootstrap":  {user: &clientcmdapi.AuthInfo{}, current: true, managed: true, noBootstrap: true},
		"another user's":                 {user: new(embedded("admin", time.Hour))},
		"another user's, expired":        {user: new(embedded("admin", -time.Minute)), managed: true, written: true},
		"files that are missing":         {user: &clientcmdapi.AuthInfo{ClientCertificate: "/missing", ClientKey: "/missing"}, managed: true, written: true},
		"missing files and no bootstrap": {user: &clientcmdapi.AuthInfo{ClientCertificate: "/missing", ClientKey: "/missing"}, noBootstrap: true, err: "/missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			opts := ClientOptions{Node: "n", Kubeconfig: dir + "/kubelet.conf", Bootstrap: dir + "/bootstrap.conf", Dir: dir + "/pki", OnlyExpired: tc.onlyExpired}
			writeConfig(t, opts.Bootstrap, "https://api:6443", nil, clientcmdapi.AuthInfo{Token: "b00tstrap"})
			if tc.noBootstrap {
				opts.Bootstrap = ""
			}
			if tc.current {
				tc.user.ClientCertificate, tc.user.ClientKey = dir+"/pki/kubelet-client-current.pem", dir+"/pki/kubelet-client-current.pem"
			}
			if tc.user != nil {
				writeConfig(t, opts.Kubeconfig, "https://api:6443", nil, *tc.user)
			} else if tc.text != "" {
				require.NoError(t, os.WriteFile(opts.Kubeconfig, []byte(tc.text), 0o600))
			}
			before, _ := os.ReadFile(opts.Kubeconfig)
			c, err := NewClient(opts)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.managed, c.manager != nil)
			assert.Equal(t, "https://api:6443", c.Config().Host)
			after, err := os.ReadFile(opts.Kubeconfig)
			require.NoError(t, err)
			assert.Equal(t, tc.written, string(after) != string(before))
			_, err = os.Stat(dir + "/pki/kubelet-client-current.pem")
			assert.Equal(t, tc.seeded, err == nil)
			if tc.written {
				checkWritten(t, opts)
			}
			if tc.managed {
				assert.NotContains(t, string(after), "b00tstrap")
				assert.Empty(t, c.Config().BearerToken)
			}
		})
	}
}

// checkWritten checks the kubeconfig for programs that read it, such as kubeadm.
func checkWritten(t *testing.T, opts ClientOptions) {
	t.Helper()
	got, err := clientcmd.LoadFromFile(opts.Kubeconfig)
	require.NoError(t, err)
	assert.Equal(t, "default-context", got.CurrentContext)
	assert.Equal(t, "default-auth", got.Contexts["default-context"].AuthInfo)
	assert.Equal(t, "https://api:6443", got.Clusters["default-cluster"].Server)
	assert.Equal(t, filepath.Join(opts.Dir, "kubelet-client-current.pem"), got.AuthInfos["default-auth"].ClientCertificate)
	assert.Equal(t, filepath.Join(opts.Dir, "kubelet-client-current.pem"), got.AuthInfos["default-auth"].ClientKey)
	info, err := os.Stat(opts.Kubeconfig)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
}

// mirror is a server that answers with the serial number of the client's certificate and the header
// Authorization.
func mirror(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serial := "none"
		if len(r.TLS.PeerCertificates) > 0 {
			serial = r.TLS.PeerCertificates[0].SerialNumber.String()
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401,"message":"`+serial+" "+r.Header.Get("Authorization")+`"}`)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// newMirrored returns a Client without a certificate for a mirror.
func newMirrored(t *testing.T) *Client {
	t.Helper()
	server := mirror(t)
	dir := t.TempDir()
	opts := ClientOptions{Node: "n", Kubeconfig: dir + "/kubelet.conf", Bootstrap: dir + "/bootstrap.conf", Dir: dir + "/pki"}
	ca := pemOf(server.Certificate())
	writeConfig(t, opts.Bootstrap, server.URL, ca, clientcmdapi.AuthInfo{Token: "b00tstrap"})
	c, err := NewClient(opts)
	require.NoError(t, err)
	return c
}

func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// shown returns what the mirror has seen of a request.
func shown(ctx context.Context, c *Client) (string, error) {
	core, err := corev1.NewForConfig(c.Config())
	if err != nil {
		return "", err
	}
	err = core.RESTClient().Get().AbsPath("/").Do(ctx).Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Message, nil
	}
	return "", err
}

// TestConnectionsFollowTheCertificate: requests wait for the first certificate, and after a replacement
// the next request shows the new one, although a connection with the old one was open.
func TestConnectionsFollowTheCertificate(t *testing.T) {
	c := newMirrored(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := shown(ctx, c)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing is sent without a certificate")

	s := newSigner(t)
	waiting := make(chan string, 1)
	go func() {
		text, err := shown(t.Context(), c)
		if err != nil {
			text = err.Error()
		}
		waiting <- text
	}()
	for range 3 {
		i := s.issue(t, ClientTemplate("n"))
		pair, err := tls.X509KeyPair(i.chain, i.key)
		require.NoError(t, err)
		c.manager.use(&pair)
		want := pair.Leaf.SerialNumber.String() + " "
		if waiting != nil {
			assert.Equal(t, want, <-waiting)
			waiting = nil
		}
		require.Eventually(t, func() bool {
			text, err := shown(t.Context(), c)
			return err == nil && text == want
		}, 20*time.Second, 5*time.Millisecond)
	}
}

// TestCredentialsOfRequests: the certificate is used for its own replacement, and the bootstrap token
// if there is no certificate or the API server does not accept it.
func TestCredentialsOfRequests(t *testing.T) {
	c := newMirrored(t)
	i := newSigner(t).issue(t, ClientTemplate("n"))
	pair, err := tls.X509KeyPair(i.chain, i.key)
	require.NoError(t, err)
	send := func(current *tls.Certificate, last error) (string, error) {
		t.Helper()
		r, err := c.requester(current, last)
		if err != nil {
			return "", err
		}
		_, err = r.Create(t.Context(), &certificatesv1.CertificateSigningRequest{})
		status := apierrors.APIStatus(nil)
		require.ErrorAs(t, err, &status)
		return status.Status().Message, err
	}
	got, refused := send(nil, nil)
	assert.Equal(t, "none Bearer b00tstrap", got)
	c.manager.use(&pair)
	own := pair.Leaf.SerialNumber.String() + " "
	got, _ = send(&pair, errors.New("timeout"))
	assert.Equal(t, own, got)
	got, _ = send(&pair, refused)
	assert.Equal(t, "none Bearer b00tstrap", got)

	require.NoError(t, os.Remove(c.Bootstrap))
	got, _ = send(&pair, refused)
	assert.Equal(t, own, got)
	_, err = send(nil, nil)
	require.ErrorIs(t, err, errNoBootstrap)
	c.Bootstrap = ""
	_, err = send(nil, nil)
	require.ErrorIs(t, err, errNoBootstrap)
}

func TestNewClientRefusesWrongOptions(t *testing.T) {
	_, err := NewClient(ClientOptions{Node: "n", Dir: "d"})
	require.ErrorContains(t, err, "Kubeconfig")
}
