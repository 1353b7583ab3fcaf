// SPDX-License-Identifier: Apache-2.0

// Package registry fetches images from registries by the distribution protocol of OCI, for package
// imagestore.
//
//	source := registry.New(registry.Options{Parts: "/var/lib/agent/images/parts"})
//	images, err := imagestore.New(imagestore.Options{Root: "/var/lib/agent/images", Sources: []imagestore.Source{source}})
//
// A reference without a registry is one of docker.io. A registry at a loopback or private address
// may answer by HTTP, every other registry has to answer by HTTPS. Proxies are those of the environment, and so are
// additional certificates (SSL_CERT_FILE). There are no mirrors. A request that fails for a reason
// that may pass is repeated twice.
//
// # A download that is cut off
//
// A layer whose connection breaks, or brings no byte for a minute, continues with a range request at
// the byte that is missing. From a registry that ignores ranges, or answers with another range, the
// layer is read again, and the bytes that are known are skipped. After four cuts without 256 KiB in
// between the pull fails. The bytes of the layer stay in Options.Parts, and the next pull, also of
// another agent after a crash, continues behind them. The digest of the whole layer decides in every
// case.
//
// Options.Parts holds at most 1 GiB beside the downloads under way, each part for a day. A later pull
// removes the rest. A part whose layer is complete, has a wrong digest, or cannot be unpacked is
// removed at once. A layer has a part only if the disk has room for four times the layer.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/keelson-dev/keelson/runtime"
)

// Options configure New.
type Options struct {
	// Transport sends the requests. Defaults to a transport like that of package http.
	Transport http.RoundTripper
	// Parts is the folder of interrupted downloads, which the next pull continues. The first download
	// makes the folder. Empty: a pull continues only its own downloads.
	Parts string
}

// Registry fetches images. It has no state in memory and no goroutine.
type Registry struct {
	transport http.RoundTripper
	parts     parts
}

// New returns a Registry.
func New(opts Options) *Registry {
	if opts.Transport == nil {
		opts.Transport = remote.DefaultTransport
	}
	return &Registry{transport.NewRetry(opts.Transport, transport.WithRetryPredicate(passing), transport.WithRetryStatusCodes(
		http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout)), parts(opts.Parts)}
}

// passing reports whether a request may succeed when it is repeated.
func passing(err error) bool {
	temporary, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && temporary.Temporary() || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// Image implements imagestore.Source. Layers are fetched when they are read, until the end of ctx.
// digest is that of the index, if the registry has the image for several platforms. An error wraps
// runtime.ErrRegistryUnavailable if the registry did not answer, or answered that it cannot now.
func (r *Registry) Image(ctx context.Context, ref name.Reference, platform v1.Platform, auth *runtime.ImageAuth) (img v1.Image, digest string, err error) {
	r.parts.sweep()
	repo := ref.Context()
	authorized, err := transport.NewWithContext(ctx, repo.Registry, authenticator(auth), r.transport, []string{repo.Scope(transport.PullScope)})
	var found *remote.Descriptor
	if err == nil {
		found, err = remote.Get(ref, remote.WithContext(ctx), remote.WithTransport(authorized), remote.WithPlatform(platform))
	}
	if err == nil {
		img, err = found.Image()
	}
	switch {
	case err == nil:
		from := &repository{ctx: ctx, parts: r.parts,
			client: &http.Client{Transport: authorized, CheckRedirect: checkRedirect},
			blobs:  repo.Scheme() + "://" + repo.RegistryStr() + "/v2/" + repo.RepositoryStr() + "/blobs/"}
		return resumable{img, from}, found.Digest.String(), nil
	case ctx.Err() != nil:
		return nil, "", context.Cause(ctx)
	case unavailable(err):
		return nil, "", fmt.Errorf("%w: %w", runtime.ErrRegistryUnavailable, err)
	}
	return nil, "", err
}

// maxRedirects is the limit of package http.
const maxRedirects = 10

// checkRedirect refuses a redirect to the address of another, private host: a registry must not make
// the agent read from services of its network.
func checkRedirect(request *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	host := request.URL.Hostname()
	ip := net.ParseIP(host)
	if host != via[0].URL.Hostname() && ip != nil && (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()) {
		return fmt.Errorf("a redirect from %s to the private address %s is refused", via[0].URL.Host, host)
	}
	return nil
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
