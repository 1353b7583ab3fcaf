// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/internal/clienttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

func TestTokens(t *testing.T) {
	const value, expires = "eyJ." + password, "2030-01-02T03:04:05Z"
	const good = `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"` + value + `","expirationTimestamp":"` + expires + `"}}`
	whole := projected.TokenRequest{Namespace: "ns", ServiceAccount: "web", Pod: "p", PodUID: "uid", Audience: "vault", ExpirationSeconds: 600}
	for _, tc := range []struct {
		name, answer string
		request      projected.TokenRequest
		sent         string
		reason       metav1.StatusReason
	}{
		{"all", good, whole, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"audiences":["vault"],` +
			`"expirationSeconds":600,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"uid"}},"status":{"token":"","expirationTimestamp":null}}`, ""},
		{"defaults", good, projected.TokenRequest{Namespace: "ns", ServiceAccount: "web", Pod: "p", PodUID: "uid"},
			`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"audiences":null,` +
				`"expirationSeconds":null,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"uid"}},"status":{"token":"","expirationTimestamp":null}}`, ""},
		{"no token", `{}`, whole, "", clientkit.BadAnswer},
		{"half an answer", good[:len(good)-10], whole, "", clientkit.BadAnswer},
		{"no time", `{"status":{"token":"` + value + `"}}`, whole, "", clientkit.BadAnswer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				var path, body string
				s.break_(func(_ string, _ objects.Ref, w http.ResponseWriter, r *http.Request) bool {
					b, _ := io.ReadAll(r.Body)
					path, body = r.Method+" "+r.URL.Path, string(b)
					_, _ = w.Write([]byte(tc.answer))
					return true
				})
				tokens, err := volumeapi.NewTokens(volumeapi.TokensOptions{Client: volumeapi.FromCore(client(t, s))})
				require.NoError(t, err)
				token, err := tokens.Token(t.Context(), tc.request)
				assert.Equal(t, "POST /api/v1/namespaces/ns/serviceaccounts/web/token", path)
				if tc.reason != "" {
					var e *volumeapi.Error
					require.ErrorAs(t, err, &e)
					assert.Equal(t, tc.reason, e.Reason)
					assert.NotContains(t, err.Error(), password)
					assert.Zero(t, token)
					return
				}
				require.NoError(t, err)
				assert.JSONEq(t, tc.sent, body)
				assert.Equal(t, value, token.Value)
				assert.Equal(t, expires, token.Expires.UTC().Format(time.RFC3339))
			})
		})
	}
}

func TestAttachedVolumes(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{VolumesAttached: []v1.AttachedVolume{
		{Name: "kubernetes.io/csi/d^1", DevicePath: "/dev/sda"}, {Name: "kubernetes.io/csi/d^2"}}}}
	clients := clienttest.New(node).CoreV1()
	n, err := volumeapi.NewNode(volumeapi.NodeOptions{Client: volumeapi.FromCore(clients), NodeName: "n"})
	require.NoError(t, err)
	attached, err := n.AttachedVolumes(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[v1.UniqueVolumeName]string{"kubernetes.io/csi/d^1": "/dev/sda", "kubernetes.io/csi/d^2": ""}, attached)
	n, err = volumeapi.NewNode(volumeapi.NodeOptions{Client: volumeapi.FromCore(clients), NodeName: "m"})
	require.NoError(t, err)
	_, err = n.AttachedVolumes(t.Context())
	assert.ErrorContains(t, err, "get: NotFound")
}

func TestOptionsOfTheSmallPartsAreChecked(t *testing.T) {
	core := clienttest.New().CoreV1()
	node := func(context.Context) (*v1.Node, error) { return nil, nil }
	for name, err := range map[string]error{
		"ClaimsOptions.Client": errOf(volumeapi.NewClaims(volumeapi.ClaimsOptions{Node: node})),
		"ClaimsOptions.Node":   errOf(volumeapi.NewClaims(volumeapi.ClaimsOptions{Client: volumeapi.FromCore(core)})),
		"TokensOptions.Client": errOf(volumeapi.NewTokens(volumeapi.TokensOptions{})),
		"NodeOptions.Client":   errOf(volumeapi.NewNode(volumeapi.NodeOptions{NodeName: "n"})),
		"NodeOptions.NodeName": errOf(volumeapi.NewNode(volumeapi.NodeOptions{Client: volumeapi.FromCore(core)})),
	} {
		require.ErrorIs(t, err, volumeapi.ErrOptions)
		assert.ErrorContains(t, err, name)
	}
}

func errOf[T any](_ T, err error) error { return err }
