// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TokenRequest is a pod's request for a token. It is comparable.
type TokenRequest struct {
	// Namespace and ServiceAccount identify the service account. The token is bound to Pod and
	// PodUID.
	Namespace, ServiceAccount string
	Pod                       string
	PodUID                    types.UID
	// Audience is the intended recipient of the token; "" is the API server.
	Audience string
	// ExpirationSeconds is the minimum lifetime of the token.
	ExpirationSeconds int64
}

// Token is a service account's token.
type Token struct {
	// Value is secret.
	Value string
	// Expires is the end of the token's validity.
	Expires time.Time
}

// TokenSource creates tokens. It is called concurrently.
type TokenSource interface {
	Token(ctx context.Context, r TokenRequest) (Token, error)
}

// TokenSourceFunc is a func that implements TokenSource.
type TokenSourceFunc func(ctx context.Context, r TokenRequest) (Token, error)

// Token calls f.
func (f TokenSourceFunc) Token(ctx context.Context, r TokenRequest) (Token, error) { return f(ctx, r) }

// TokenForgetter is a TokenSource that caches the tokens of pods. TearDown calls Forget.
type TokenForgetter interface {
	Forget(uid types.UID)
}

// TrustBundles returns ClusterTrustBundles. It is called concurrently.
type TrustBundles interface {
	// Bundle returns the PEM certificates of the named bundle, or of all matching bundles of a
	// signer. If no bundle exists, apierrors.IsNotFound must be true for the error.
	Bundle(ctx context.Context, want *v1.ClusterTrustBundleProjection) ([]byte, error)
}

// Certificate is a pod's key with the certificate chain issued for the key.
type Certificate struct {
	// Key and Chain are PEM; Key is secret.
	Key, Chain []byte
}

// Certificates returns issued certificates. It is called concurrently, and again at each refresh:
// it must return the same certificate until the certificate is due for renewal.
type Certificates interface {
	Certificate(ctx context.Context, pod *v1.Pod, want *v1.PodCertificateProjection) (Certificate, error)
}

// HasToken reports whether a volume contains a service account token.
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
