// SPDX-License-Identifier: Apache-2.0

package kubeclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedauthenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	typedcertificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typedstoragev1 "k8s.io/client-go/kubernetes/typed/storage/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/keelson-dev/keelson/internal/kubeclient"
)

var (
	_ record.EventSink = kubeclient.EventSink{}

	named  = metav1.ObjectMeta{Name: "x", Namespace: "ns"}
	second = int64(1)
	grace  = int64(3)
	lists  = metav1.ListOptions{LabelSelector: "a=b", FieldSelector: "metadata.name=x", ResourceVersion: "0", TimeoutSeconds: &second}
)

// reader has the methods of Kind and of client-go's typed clients.
type reader[P any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (P, error)
	Create(ctx context.Context, object P, o metav1.CreateOptions) (P, error)
	Update(ctx context.Context, object P, o metav1.UpdateOptions) (P, error)
	Patch(ctx context.Context, name string, t types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (P, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// use calls all methods, and returns the answers as text.
func use[P any](ctx context.Context, r reader[P], object P) (answers []string) {
	add := func(o P, err error) { answers = append(answers, text(o, err)) }
	add(r.Get(ctx, "x", metav1.GetOptions{ResourceVersion: "7"}))
	add(r.Create(ctx, object, metav1.CreateOptions{FieldManager: "m"}))
	add(r.Update(ctx, object, metav1.UpdateOptions{}))
	add(r.Patch(ctx, "x", types.MergePatchType, []byte(`{"a":1}`), metav1.PatchOptions{FieldManager: "m"}, "status"))
	return append(answers, fmt.Sprint(r.Delete(ctx, "x", metav1.DeleteOptions{GracePeriodSeconds: &grace})))
}

func text(o any, err error) string {
	data, _ := json.Marshal(o)
	return fmt.Sprint(string(data), err)
}

// typed returns client-go's client of an API group.
func typed[C any](t *testing.T, config *rest.Config, newForConfig func(*rest.Config) (C, error)) C {
	t.Helper()
	client, err := newForConfig(config)
	require.NoError(t, err)
	return client
}

// Requests and answers are those of client-go's typed clients.
func TestSameAsTypedClients(t *testing.T) {
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(contentType, func(t *testing.T) {
			var requests []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				requests = append(requests, fmt.Sprintf("%s %s %q %q %q %q", r.Method, r.URL, r.Header.Get("Accept"), r.Header.Get("Content-Type"), r.UserAgent(), body))
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Path == "/api/v1/namespaces/ns/secrets/x" && r.Method == http.MethodGet {
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"no such secret","code":404}`)
					return
				}
				_, _ = io.WriteString(w, `{"metadata":{"name":"x","resourceVersion":"9"},"items":[{"metadata":{"name":"y"}}]}`)
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: contentType}}
			own, err := kubeclient.New(config)
			require.NoError(t, err)
			core, storage := typed(t, config, typedcorev1.NewForConfig), typed(t, config, typedstoragev1.NewForConfig)
			coordination, certificates := typed(t, config, typedcoordinationv1.NewForConfig), typed(t, config, typedcertificatesv1.NewForConfig)
			authentication, authorization := typed(t, config, typedauthenticationv1.NewForConfig), typed(t, config, typedauthorizationv1.NewForConfig)
			ctx := t.Context()
			for name, pair := range map[string][2]func() []string{
				"pods":       {func() []string { return use(ctx, own.Pods("ns"), &v1.Pod{ObjectMeta: named}) }, func() []string { return use(ctx, core.Pods("ns"), &v1.Pod{ObjectMeta: named}) }},
				"nodes":      {func() []string { return use(ctx, own.Nodes(), &v1.Node{ObjectMeta: named}) }, func() []string { return use(ctx, core.Nodes(), &v1.Node{ObjectMeta: named}) }},
				"configmaps": {func() []string { return use(ctx, own.ConfigMaps("ns"), &v1.ConfigMap{ObjectMeta: named}) }, func() []string { return use(ctx, core.ConfigMaps("ns"), &v1.ConfigMap{ObjectMeta: named}) }},
				"secrets":    {func() []string { return use(ctx, own.Secrets("ns"), &v1.Secret{ObjectMeta: named}) }, func() []string { return use(ctx, core.Secrets("ns"), &v1.Secret{ObjectMeta: named}) }},
				"volumes":    {func() []string { return use(ctx, own.PersistentVolumes(), &v1.PersistentVolume{ObjectMeta: named}) }, func() []string { return use(ctx, core.PersistentVolumes(), &v1.PersistentVolume{ObjectMeta: named}) }},
				"claims": {func() []string {
					return use(ctx, own.PersistentVolumeClaims("ns"), &v1.PersistentVolumeClaim{ObjectMeta: named})
				},
					func() []string {
						return use(ctx, core.PersistentVolumeClaims("ns"), &v1.PersistentVolumeClaim{ObjectMeta: named})
					}},
				"leases": {func() []string { return use(ctx, own.Leases("ns"), &coordinationv1.Lease{ObjectMeta: named}) },
					func() []string {
						return use(ctx, coordination.Leases("ns"), &coordinationv1.Lease{ObjectMeta: named})
					}},
				"requests": {func() []string {
					return use(ctx, own.CertificateSigningRequests(), &certificatesv1.CertificateSigningRequest{ObjectMeta: named})
				},
					func() []string {
						return use(ctx, certificates.CertificateSigningRequests(), &certificatesv1.CertificateSigningRequest{ObjectMeta: named})
					}},
				"csinodes": {func() []string { return use(ctx, own.CSINodes(), &storagev1.CSINode{ObjectMeta: named}) },
					func() []string { return use(ctx, storage.CSINodes(), &storagev1.CSINode{ObjectMeta: named}) }},
				"attachments": {func() []string {
					return use(ctx, own.VolumeAttachments(), &storagev1.VolumeAttachment{ObjectMeta: named})
				},
					func() []string {
						return use(ctx, storage.VolumeAttachments(), &storagev1.VolumeAttachment{ObjectMeta: named})
					}},
				"lists": {func() []string {
					return []string{text(own.Pods("").List(ctx, lists)), text(own.Nodes().List(ctx, lists)), text(own.Services("").List(ctx, lists)), text(own.CSIDrivers().List(ctx, lists))}
				},
					func() []string {
						return []string{text(core.Pods("").List(ctx, lists)), text(core.Nodes().List(ctx, lists)), text(core.Services("").List(ctx, lists)), text(storage.CSIDrivers().List(ctx, lists))}
					}},
				"reviews": {func() []string {
					return []string{text(own.TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "t"}}, metav1.CreateOptions{})),
						text(own.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "u"}}, metav1.CreateOptions{})),
						text(own.ServiceAccounts("ns").CreateToken(ctx, "x", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"a"}}}, metav1.CreateOptions{}))}
				}, func() []string {
					return []string{text(authentication.TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "t"}}, metav1.CreateOptions{})),
						text(authorization.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "u"}}, metav1.CreateOptions{})),
						text(core.ServiceAccounts("ns").CreateToken(ctx, "x", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"a"}}}, metav1.CreateOptions{}))}
				}},
				"watches": {func() []string { return watchOf(own.Pods("").Watch(ctx, lists)) }, func() []string { return watchOf(core.Pods("").Watch(ctx, lists)) }},
				"events":  {func() []string { return eventsOf(kubeclient.EventSink{Client: own}) }, func() []string { return eventsOf(&typedcorev1.EventSinkImpl{Interface: core.Events("")}) }},
			} {
				requests = nil
				got := pair[0]()
				asked := requests
				requests = nil
				require.Equal(t, pair[1](), got, name)
				require.NotEmpty(t, requests)
				require.Equal(t, requests, asked, name)
			}
		})
	}
}

func watchOf(w interface{ Stop() }, err error) []string {
	if err == nil {
		w.Stop()
	}
	return []string{fmt.Sprint(err)}
}

func eventsOf(s record.EventSink) []string {
	e := &v1.Event{ObjectMeta: named, Reason: "r"}
	return []string{text(s.Create(e)), text(s.Update(e)), text(s.Patch(e, []byte(`{"count":2}`)))}
}
