// SPDX-License-Identifier: Apache-2.0

package kubeclient

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// The kinds of this package.
type (
	// Pods reads and writes objects of the kind.
	Pods = ListKind[v1.Pod, v1.PodList, *v1.Pod, *v1.PodList]
	// Nodes reads and writes objects of the kind.
	Nodes = ListKind[v1.Node, v1.NodeList, *v1.Node, *v1.NodeList]
	// Services reads and writes objects of the kind.
	Services = ListKind[v1.Service, v1.ServiceList, *v1.Service, *v1.ServiceList]
	// ConfigMaps reads and writes objects of the kind.
	ConfigMaps = Kind[v1.ConfigMap, *v1.ConfigMap]
	// Secrets reads and writes objects of the kind.
	Secrets = Kind[v1.Secret, *v1.Secret]
	// Events reads and writes objects of the kind.
	Events = Kind[v1.Event, *v1.Event]
	// PersistentVolumes reads and writes objects of the kind.
	PersistentVolumes = Kind[v1.PersistentVolume, *v1.PersistentVolume]
	// PersistentVolumeClaims reads and writes objects of the kind.
	PersistentVolumeClaims = Kind[v1.PersistentVolumeClaim, *v1.PersistentVolumeClaim]
	// Leases reads and writes objects of the kind.
	Leases = Kind[coordinationv1.Lease, *coordinationv1.Lease]
	// CertificateSigningRequests reads and writes objects of the kind.
	CertificateSigningRequests = Kind[certificatesv1.CertificateSigningRequest, *certificatesv1.CertificateSigningRequest]
	// CSINodes reads and writes objects of the kind.
	CSINodes = Kind[storagev1.CSINode, *storagev1.CSINode]
	// CSIDrivers reads and writes objects of the kind.
	CSIDrivers = ListKind[storagev1.CSIDriver, storagev1.CSIDriverList, *storagev1.CSIDriver, *storagev1.CSIDriverList]
	// VolumeAttachments reads and writes objects of the kind.
	VolumeAttachments = Kind[storagev1.VolumeAttachment, *storagev1.VolumeAttachment]
	// RuntimeClasses reads and writes objects of the kind.
	RuntimeClasses = Kind[nodev1.RuntimeClass, *nodev1.RuntimeClass]
	// TokenReviews reads and writes objects of the kind.
	TokenReviews = Kind[authenticationv1.TokenReview, *authenticationv1.TokenReview]
	// SubjectAccessReviews reads and writes objects of the kind.
	SubjectAccessReviews = Kind[authorizationv1.SubjectAccessReview, *authorizationv1.SubjectAccessReview]
)

// Client is a client of an API server. All methods are safe for concurrent use.
type Client struct {
	rest map[schema.GroupVersion]rest.Interface
}

// New returns a client with the server and the credentials of config, which is copied. New sends no
// request.
func New(config *rest.Config) (*Client, error) {
	e := encodings()
	if e.err != nil {
		return nil, e.err
	}
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = e.serializer
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	transport, err := rest.HTTPClientFor(config) // all groups share its connections
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	c := &Client{map[schema.GroupVersion]rest.Interface{}}
	for _, g := range groups() {
		own := *config
		own.GroupVersion, own.APIPath = &g.version, "/apis"
		if g.version.Group == "" {
			own.APIPath = "/api"
		}
		if c.rest[g.version], err = rest.RESTClientForConfigAndClient(&own, transport); err != nil {
			return nil, fmt.Errorf("client of the API server: %w", err)
		}
	}
	return c, nil
}

// Core returns the client of the API group core, for requests of the caller.
func (c *Client) Core() rest.Interface { return c.rest[v1.SchemeGroupVersion] }

// kind returns a Kind of a group.
func kind[T any, P pointer[T]](c *Client, g schema.GroupVersion, resource, namespace string) Kind[T, P] {
	return Kind[T, P]{c.rest[g], encodings().parameters, resource, namespace}
}

// plain returns a Kind of the group core.
func plain[T any, P pointer[T]](c *Client, resource, namespace string) *Kind[T, P] {
	k := kind[T, P](c, v1.SchemeGroupVersion, resource, namespace)
	return &k
}

// Pods returns the pods of a namespace, or of all namespaces for "".
func (c *Client) Pods(namespace string) *Pods {
	return &Pods{kind[v1.Pod](c, v1.SchemeGroupVersion, "pods", namespace)}
}

// Nodes returns the nodes.
func (c *Client) Nodes() *Nodes {
	return &Nodes{kind[v1.Node](c, v1.SchemeGroupVersion, "nodes", "")}
}

// Services returns the services of a namespace, or of all namespaces for "".
func (c *Client) Services(namespace string) *Services {
	return &Services{kind[v1.Service](c, v1.SchemeGroupVersion, "services", namespace)}
}

// ConfigMaps returns the ConfigMaps of a namespace.
func (c *Client) ConfigMaps(namespace string) *ConfigMaps {
	return plain[v1.ConfigMap](c, "configmaps", namespace)
}

// Secrets returns the Secrets of a namespace.
func (c *Client) Secrets(namespace string) *Secrets {
	return plain[v1.Secret](c, "secrets", namespace)
}

// Events returns the events of a namespace.
func (c *Client) Events(namespace string) *Events {
	return plain[v1.Event](c, "events", namespace)
}

// PersistentVolumes returns the volumes.
func (c *Client) PersistentVolumes() *PersistentVolumes {
	return plain[v1.PersistentVolume](c, "persistentvolumes", "")
}

// PersistentVolumeClaims returns the claims of a namespace.
func (c *Client) PersistentVolumeClaims(namespace string) *PersistentVolumeClaims {
	return plain[v1.PersistentVolumeClaim](c, "persistentvolumeclaims", namespace)
}

// ServiceAccounts returns the service accounts of a namespace.
func (c *Client) ServiceAccounts(namespace string) *ServiceAccounts {
	return &ServiceAccounts{plain[v1.ServiceAccount](c, "serviceaccounts", namespace)}
}

// ServiceAccounts creates tokens.
type ServiceAccounts struct {
	accounts *Kind[v1.ServiceAccount, *v1.ServiceAccount]
}

// CreateToken creates a token of a service account.
func (s *ServiceAccounts) CreateToken(ctx context.Context, name string, r *authenticationv1.TokenRequest, o metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	post := s.accounts.about(s.accounts.client.Post(), name, &o).SubResource("token").Body(r)
	return answer[authenticationv1.TokenRequest](ctx, post)
}

// Leases returns the leases of a namespace.
func (c *Client) Leases(namespace string) *Leases {
	k := kind[coordinationv1.Lease](c, coordinationv1.SchemeGroupVersion, "leases", namespace)
	return &k
}

// CertificateSigningRequests returns the certificate signing requests.
func (c *Client) CertificateSigningRequests() *CertificateSigningRequests {
	k := kind[certificatesv1.CertificateSigningRequest](c, certificatesv1.SchemeGroupVersion, "certificatesigningrequests", "")
	return &k
}

// CSINodes returns the CSINode objects.
func (c *Client) CSINodes() *CSINodes {
	k := kind[storagev1.CSINode](c, storagev1.SchemeGroupVersion, "csinodes", "")
	return &k
}

// CSIDrivers returns the CSIDriver objects.
func (c *Client) CSIDrivers() *CSIDrivers {
	return &CSIDrivers{kind[storagev1.CSIDriver](c, storagev1.SchemeGroupVersion, "csidrivers", "")}
}

// VolumeAttachments returns the VolumeAttachment objects.
func (c *Client) VolumeAttachments() *VolumeAttachments {
	k := kind[storagev1.VolumeAttachment](c, storagev1.SchemeGroupVersion, "volumeattachments", "")
	return &k
}

// RuntimeClasses returns the RuntimeClass objects.
func (c *Client) RuntimeClasses() *RuntimeClasses {
	k := kind[nodev1.RuntimeClass](c, nodev1.SchemeGroupVersion, "runtimeclasses", "")
	return &k
}

// TokenReviews returns the client that creates TokenReviews.
func (c *Client) TokenReviews() *TokenReviews {
	k := kind[authenticationv1.TokenReview](c, authenticationv1.SchemeGroupVersion, "tokenreviews", "")
	return &k
}

// SubjectAccessReviews returns the client that creates SubjectAccessReviews.
func (c *Client) SubjectAccessReviews() *SubjectAccessReviews {
	k := kind[authorizationv1.SubjectAccessReview](c, authorizationv1.SchemeGroupVersion, "subjectaccessreviews", "")
	return &k
}
