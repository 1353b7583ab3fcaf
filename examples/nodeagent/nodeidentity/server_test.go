// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/keelson-dev/keelson/internal/apiservertest"
)

// approver approves and signs the requests of a real API server, as the controllers of
// kube-controller-manager and an administrator do.
type approver struct {
	*testing.T
	*signer
	objects certificatesclient.CertificateSigningRequestInterface
	seen    map[string]bool // names that were approved
}

// next waits for a new request of a signer, approves and signs it, and returns the user who made it.
func (a *approver) next(signerName string) (user string) {
	a.Helper()
	require.Eventually(a, func() bool {
		list, err := a.objects.List(a.Context(), metav1.ListOptions{})
		require.NoError(a, err)
		for _, r := range list.Items {
			if r.Spec.SignerName == signerName && !a.seen[r.Name] {
				a.seen[r.Name] = true
				a.approve(&r)
				user = r.Spec.Username
				return true
			}
		}
		return false
	}, time.Minute, 20*time.Millisecond, "a request for %s", signerName)
	return user
}

func (a *approver) approve(r *certificatesv1.CertificateSigningRequest) {
	a.Helper()
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue, Reason: "Test",
	})
	approved, err := a.objects.UpdateApproval(a.Context(), r.Name, r, metav1.UpdateOptions{})
	require.NoError(a, err)
	approved.Status.Certificate, err = a.sign(r.Spec.Request)
	require.NoError(a, err)
	_, err = a.objects.UpdateStatus(a.Context(), approved, metav1.UpdateOptions{})
	require.NoError(a, err)
}

// startCluster starts an API server that accepts the signer's certificates and a bootstrap token.
func startCluster(t *testing.T) (*apiservertest.Server, *approver, clientcmdapi.AuthInfo) {
	t.Helper()
	s := newSigner(t)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw}), 0o600))
	server := apiservertest.Start(t, apiservertest.Options{Flags: []string{"--client-ca-file", ca, "--enable-bootstrap-token-auth"}})
	core, err := corev1.NewForConfig(server.Config())
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
	certificates, err := certificatesclient.NewForConfig(server.Config())
	require.NoError(t, err)
	return server, &approver{t, s, certificates.CertificateSigningRequests(), map[string]bool{}}, clientcmdapi.AuthInfo{Token: "abcdef.0123456789abcdef"}
}

// background runs a function until the test ends or stop is called.
func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	ended := false
	stop = func() {
		if !ended {
			ended = true
			cancel()
			assert.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return stop
}

// TestANodeJoinsByABootstrapToken: with nothing but a token the node gets its client certificate, acts as
// the node, gets its serving certificate with the node's own credentials, and comes back after a restart
// without the bootstrap kubeconfig. A second certificate is requested as the node itself.
func TestANodeJoinsByABootstrapToken(t *testing.T) {
	server, approver, token := startCluster(t)
	dir := t.TempDir()
	opts := ClientOptions{Node: "n", Kubeconfig: dir + "/kubelet.conf", Bootstrap: dir + "/bootstrap.conf", Dir: dir + "/pki"}
	writeConfig(t, opts.Bootstrap, server.URL, server.Config().CAData, token)
	client, err := NewClient(opts)
	require.NoError(t, err)
	stop := background(t, client.Run)
	core, err := corev1.NewForConfig(client.Config())
	require.NoError(t, err)

	created := make(chan error, 1)
	go func() { // waits for the certificate
		_, err := core.Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		created <- err
	}()
	assert.Equal(t, "system:bootstrap:abcdef", approver.next(certificatesv1.KubeAPIServerClientKubeletSignerName))
	require.NoError(t, <-created)
	_, err = core.Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), "NodeRestriction knows the node: %v", err)

	store, err := NewStore(opts.Dir, ServingPrefix)
	require.NoError(t, err)
	serving, err := New(Options{
		Store: store, Signer: certificatesv1.KubeletServingSignerName,
		Template: func() (Template, bool) {
			return ServingTemplate("n", []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.0.0.1"}, {Type: v1.NodeHostName, Address: "n"}})
		},
		Requester: func(*tls.Certificate, error) (Requester, error) { return NewRequester(client.Config()) },
	})
	require.NoError(t, err)
	changed := serving.Changed()
	stopServing := background(t, serving.Run)
	assert.Equal(t, "system:node:n", approver.next(certificatesv1.KubeletServingSignerName))
	<-changed
	require.NoError(t, serving.Current().Leaf.VerifyHostname("127.0.0.1"))
	stopServing()
	stop()

	require.NoError(t, os.Remove(opts.Bootstrap))
	client, err = NewClient(opts)
	require.NoError(t, err)
	first := client.manager.Current()
	require.NotNil(t, first)
	client.manager.machine.due = time.Now() // as after a year
	background(t, client.Run)
	core, err = corev1.NewForConfig(client.Config())
	require.NoError(t, err)
	_, err = core.Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
	changed = client.manager.Changed()
	assert.Equal(t, "system:node:n", approver.next(certificatesv1.KubeAPIServerClientKubeletSignerName))
	<-changed
	assert.NotEqual(t, first.Leaf.SerialNumber, client.manager.Current().Leaf.SerialNumber)
	_, err = core.Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
}

// TestRefusalsOfARealServer: what the Requester makes of requests that are denied, deleted or repeated.
func TestRefusalsOfARealServer(t *testing.T) {
	server, approver, _ := startCluster(t)
	requester, err := NewRequester(server.Config())
	require.NoError(t, err)
	send := func() (string, types.UID) {
		r, err := newRequest(ClientTemplate("n"))
		require.NoError(t, err)
		object := r.object(certificatesv1.KubeAPIServerClientKubeletSignerName)
		uid, err := requester.Create(t.Context(), object)
		require.NoError(t, err)
		again, err := requester.Create(t.Context(), object)
		require.NoError(t, err)
		assert.Equal(t, uid, again, "a repeated creation makes no second object")
		return object.Name, uid
	}
	for name, tc := range map[string]struct {
		answer func(name string)
		want   error
	}{
		"denied": {want: ErrRefused, answer: func(name string) {
			object, err := approver.objects.Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			object.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: v1.ConditionTrue, Message: "not you"}}
			_, err = approver.objects.UpdateApproval(t.Context(), name, object, metav1.UpdateOptions{})
			require.NoError(t, err)
		}},
		"deleted": {want: ErrGone, answer: func(name string) {
			require.NoError(t, approver.objects.Delete(t.Context(), name, metav1.DeleteOptions{}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			object, uid := send()
			ended := make(chan error, 1)
			go func() { // watches, or reads the answer
				_, err := requester.Wait(t.Context(), object, uid)
				ended <- err
			}()
			tc.answer(object)
			require.ErrorIs(t, <-ended, tc.want)
		})
	}
	_, err = requester.Wait(t.Context(), "csr-missing", "1")
	require.ErrorIs(t, err, ErrGone)
}
