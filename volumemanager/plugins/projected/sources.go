// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TokenRequest is a token as a pod wants it. It is comparable.
type TokenRequest struct {
	// Namespace and ServiceAccount are whose token it is; Pod and PodUID are what it is bound to.
	Namespace, ServiceAccount string
	Pod                       string
	PodUID                    types.UID
	// Audience is who shall accept it; "" is the API server.
	Audience string
	// ExpirationSeconds is how long it shall live at least.
	ExpirationSeconds int64
}

// Token is a service account's token.
type Token struct {
	// Value is secret.
	Value string
	// Expires is when it is worth nothing any more.
	Expires time.Time
}

// TokenSource makes tokens. It is called concurrently.
type TokenSource interface {
	Token(ctx context.Context, r TokenRequest) (Token, error)
}

// TokenSourceFunc is a function that is a TokenSource.
type TokenSourceFunc func(ctx context.Context, r TokenRequest) (Token, error)

// Token calls f.
func (f TokenSourceFunc) Token(ctx context.Context, r TokenRequest) (Token, error) { return f(ctx, r) }

// TokenForgetter is a TokenSource that keeps tokens of pods. A TearDown calls it.
type TokenForgetter interface {
	Forget(uid types.UID)
}

// TrustBundles knows ClusterTrustBundles. It is called concurrently.
type TrustBundles interface {
	// Bundle returns the certificates, PEM, of the bundle that is named, or of all of a signer that match. There being
	// none is an error for which apierrors.IsNotFound is true.
	Bundle(ctx context.Context, want *v1.ClusterTrustBundleProjection) ([]byte, error)
}

// Certificate is a pod's key and what was issued for it.
type Certificate struct {
	// Key and Chain are PEM; Key is secret.
	Key, Chain []byte
}

// Certificates has certificates issued. It is called concurrently, and again at each refresh: it returns the same
// certificate until that has to be renewed.
type Certificates interface {
	Certificate(ctx context.Context, pod *v1.Pod, want *v1.PodCertificateProjection) (Certificate, error)
}

// HasToken reports whether a volume holds a token of a service account.
func HasToken(volume v1.Volume) bool {
	if volume.Projected == nil {
		return false
	}
	for i := range volume.Projected.Sources {
		if volume.Projected.Sources[i].ServiceAccountToken != nil {
			return true
		}
	}
	return false
}
