// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/internal/testport"
)

// authority signs the certificates of a cluster.
type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{T: t, file: filepath.Join(t.TempDir(), "ca.crt")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a.key = key
	a.cert = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}, &key.PublicKey)
	require.NoError(t, os.WriteFile(a.file, certText(a.cert), 0o600))
	return a
}

func certText(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// sign signs a certificate for an hour. The first certificate is signed by its own key.
func (a authority) sign(template *x509.Certificate, public any) *x509.Certificate {
	a.Helper()
	template.NotBefore, template.NotAfter, template.BasicConstraintsValid = time.Now().Add(-time.Minute), time.Now().Add(time.Hour), true
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	require.NoError(a, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a, err)
	return cert
}

// user returns the client certificate of a user.
func (a authority) user(name string, groups ...string) tls.Certificate {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a, err)
	cert := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: groups}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// approve waits for a request of a user, approves it and issues the certificate.
func (a authority) approve(c *clustered, user, signer string) {
	a.Helper()
	client, err := certificatesclient.NewForConfig(c.server.Config())
	require.NoError(a, err)
	objects := client.CertificateSigningRequests()
	c.eventually("a request of "+user+" for "+signer, func() bool {
		list, err := objects.List(a.Context(), metav1.ListOptions{})
		require.NoError(a, err)
		for _, r := range list.Items {
			if r.Spec.Username != user || r.Spec.SignerName != signer || len(r.Status.Conditions) > 0 {
				continue
			}
			block, _ := pem.Decode(r.Spec.Request)
			asked, err := x509.ParseCertificateRequest(block.Bytes)
			require.NoError(a, err)
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue, Reason: "Test"}}
			approved, err := objects.UpdateApproval(a.Context(), r.Name, &r, metav1.UpdateOptions{})
			require.NoError(a, err)
			approved.Status.Certificate = certText(a.sign(&x509.Certificate{
				Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses, KeyUsage: x509.KeyUsageDigitalSignature,
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
			}, asked.PublicKey))
			_, err = objects.UpdateStatus(a.Context(), approved, metav1.UpdateOptions{})
			require.NoError(a, err)
			return true
		}
		return false
	})
}

// bootstrapped is a cluster with a kubeconfig for new nodes.
type bootstrapped struct {
	*clustered
	bootstrap string
}

// newBootstrapped returns a cluster without the node, and the flags of an agent that joins it with
// nothing but a bootstrap token.
func newBootstrapped(t *testing.T, a authority) bootstrapped {
	t.Helper()
	server := apiservertest.Start(t, apiservertest.Options{Flags: []string{"--client-ca-file", a.file, "--enable-bootstrap-token-auth"}})
	s := newStation(t, backends["process"])
	core, err := server.Core()
	require.NoError(t, err)
	_, err = core.Secrets("kube-system").Create(t.Context(), &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	rbac, err := rbacclient.NewForConfig(server.Config())
	require.NoError(t, err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrappers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:bootstrappers"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	bootstrap, err := server.WriteKubeconfig(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: server.Config().CAData}, BearerToken: "abcdef.0123456789abcdef"})
	require.NoError(t, err)
	return bootstrapped{bootstrap: bootstrap, clustered: &clustered{
		station: s, server: server, api: core.Pods(v1.NamespaceDefault), core: core, name: "n",
		flags: []string{"--kubeconfig", s.dir + "/kubelet.conf", "--bootstrap-kubeconfig", bootstrap, "--cert-dir", s.dir + "/pki", "--client-ca-file", a.file},
	}}
}

// visitor is a client of the node's server.
type visitor struct {
	token string
	certs []tls.Certificate
}

// visit requests a path of the node's server, whose certificate must be valid for a name.
func (a authority) visit(address, name, path string, v visitor) (code int, body string, err error) {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name, Certificates: v.certs}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(a.Context(), "GET", "https://"+address+path, nil)
	if err != nil {
		return 0, "", err
	}
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// A node joins a cluster with a bootstrap token: static pods run before the certificate is issued, the
// node registers itself with it, the API server issues the certificate of the node's server, and the
// API server decides who may do what there. A restart needs no token.
func TestANodeJoinsAndServesWithItsOwnCertificates(t *testing.T) {
	f := flags{node: "n", kubeconfig: "k", addresses: addressFlags{names: &nameCache{}}}
	ips := f.hostIPs(t.Context())
	if ips[0] == "127.0.0.1" {
		t.Skip("the node has no address for a serving certificate")
	}
	a := newAuthority(t)
	c := newBootstrapped(t, a)
	port := testport.Free(t)
	c.flags = append(c.flags, "--rotate-server-certificates", "--port", strconv.Itoa(port))
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	manifest, pids := c.service("static", forever)
	c.write("static.yaml", manifest)
	c.start(c.flags...)
	c.waitStarts(pids, 1)

	a.approve(c.clustered, "system:bootstrap:abcdef", certificatesv1.KubeAPIServerClientKubeletSignerName)
	c.eventually("the node is registered, and its pod runs", func() bool {
		_, err := c.core.Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		return err == nil
	})
	c.told("static-n", "is mirrored and runs", running)
	_, _, err := a.visit(address, ips[0], "/healthz", visitor{})
	require.Error(t, err, "no certificate, no handshake")
	a.approve(c.clustered, "system:node:n", certificatesv1.KubeletServingSignerName)
	c.eventually("the node serves with the issued certificate", func() bool {
		_, _, err := a.visit(address, ips[0], "/healthz", visitor{})
		return err == nil
	})
	check := func(path string, v visitor, code int, body string) {
		t.Helper()
		gotCode, gotBody, err := a.visit(address, ips[0], path, v)
		require.NoError(t, err)
		assert.Equal(t, code, gotCode, gotBody)
		assert.Contains(t, gotBody, body)
	}
	admin, bob := a.user("admin", "system:masters"), a.user("bob", "staff")
	check("/healthz", visitor{}, 401, "Unauthorized")
	check("/junk", visitor{}, 401, "Unauthorized")
	check("/healthz", visitor{token: "bad"}, 401, "Unauthorized")
	check("/pods", visitor{token: c.server.Config().BearerToken}, 200, `"static-n"`)
	check("/pods", visitor{certs: []tls.Certificate{admin}}, 200, `"static-n"`)
	check("/pods", visitor{certs: []tls.Certificate{bob}}, 403, "Forbidden (user=bob, verb=get, resource=nodes, subresource(s)=[pods proxy])")
	check("/pods", visitor{certs: []tls.Certificate{newAuthority(t).user("admin", "system:masters")}}, 401, "Unauthorized")
	for _, name := range []string{
		"kubelet_certificate_manager_client_ttl_seconds", "kubelet_certificate_manager_client_expiration_renew_errors", "kubelet_certificate_manager_server_ttl_seconds",
		"kubelet_server_expiration_renew_errors", "kubelet_certificate_manager_server_rotation_seconds_count 0",
		`kubelet_http_requests_total{long_running="false",method="GET",path="healthz",server_type="readwrite"}`,
	} {
		check("/metrics", visitor{certs: []tls.Certificate{admin}}, 200, "\n"+name)
	}

	c.interrupt()
	require.NoError(t, os.Remove(c.bootstrap))
	c.start(c.flags...)
	c.eventually("a restarted node serves with the stored certificate", func() bool {
		code, _, err := a.visit(address, ips[0], "/healthz", visitor{certs: []tls.Certificate{admin}})
		return err == nil && code == http.StatusOK
	})
}
