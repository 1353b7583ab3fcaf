// SPDX-License-Identifier: Apache-2.0

// Package registry fetches images from registries by the distribution protocol of OCI, for package
// imagestore.
//
//	images, err := imagestore.New(imagestore.Options{Root: "/var/lib/agent/images", Sources: []imagestore.Source{registry.New(nil)}})
//
// A reference without a registry is one of docker.io. A registry at a loopback or private address
// may answer by HTTP, every other registry has to answer by HTTPS. Proxies are those of the environment, and so are
// additional certificates (SSL_CERT_FILE). There are no mirrors. A request that fails for a reason
// that may pass is repeated twice.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/keelson-dev/keelson/runtime"
)

// Registry fetches images. It has no state and no goroutine.
type Registry struct{ transport http.RoundTripper }

// New returns a Registry. With a nil transport, requests use a transport like that of package http.
func New(transport http.RoundTripper) *Registry {
	if transport == nil {
		transport = remote.DefaultTransport
	}
	return &Registry{transport}
}

// Image implements imagestore.Source. Layers are fetched when they are read, until the end of ctx.
// digest is that of the index, if the registry has the image for several platforms. An error wraps
// runtime.ErrRegistryUnavailable if the registry did not answer, or answered that it cannot now.
func (r *Registry) Image(ctx context.Context, ref name.Reference, platform v1.Platform, auth *runtime.ImageAuth) (img v1.Image, digest string, err error) {
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithTransport(r.transport),
		remote.WithPlatform(platform), remote.WithAuth(authenticator(auth)))
	if err == nil {
		img, err = found.Image()
	}
	switch {
	case err == nil:
		return img, found.Digest.String(), nil
	case ctx.Err() != nil:
		return nil, "", context.Cause(ctx)
	case unavailable(err):
		return nil, "", fmt.Errorf("%w: %w", runtime.ErrRegistryUnavailable, err)
	}
	return nil, "", err
}

// authenticator returns the credentials as the library takes them.
func authenticator(auth *runtime.ImageAuth) authn.Authenticator {
	if auth == nil {
		return authn.Anonymous
	}
	return authn.FromConfig(authn.AuthConfig{
		Username: auth.Username, Password: auth.Password, Auth: auth.Auth,
		IdentityToken: auth.IdentityToken, RegistryToken: auth.RegistryToken,
	})
}

// unavailable reports whether a later try may succeed although nothing is changed.
func unavailable(err error) bool {
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests
	}
	_, network := errors.AsType[net.Error](err)
	return network
}
