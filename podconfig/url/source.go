// SPDX-License-Identifier: Apache-2.0

package url

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	neturl "net/url"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

const (
	// DefaultPeriod is the time between two polls, as in the kubelet.
	DefaultPeriod = 20 * time.Second
	// Timeout is the maximum duration of a poll, from the connection to the last byte of the body.
	// It is the kubelet's.
	Timeout = 10 * time.Second
)

// Errors of New and Run.
var (
	// ErrConfig means an invalid Config; the error names the field.
	ErrConfig = errors.New("url source: bad config")
	// ErrRunning is returned by a second Run of a Source.
	ErrRunning = errors.New("url source: Run was called before")
)

// Config configures a Source.
type Config struct {
	// URL is the location of the manifest: a Pod or a PodList, as YAML or JSON. Its scheme is http
	// or https; a user and password are allowed. Scheme, host and path are part of the pods'
	// identity; user and query are not. Required.
	URL string
	// Decoder decodes the body into pods. Its MaxBytes limits the body. Required.
	Decoder *manifest.Decoder
	// Decode decodes the body in the place of Decoder. Kinds other than Pod are in package
	// podconfig/kinds. Defaults to Decoder.Pods.
	Decode func(data []byte, o manifest.Origin) ([]*v1.Pod, error)
	// Header is added to every request, besides net/http's own headers. New copies the Header.
	// Conditional headers (such as If-None-Match) are not allowed. Defaults to no headers.
	Header http.Header
	// Client sends the requests and configures TLS, proxies and redirects. Its Timeout applies in
	// addition to the constant Timeout. Defaults to a private client with the system's authorities
	// and the environment's proxy. The default client follows up to ten redirects, but none from
	// https to http, and sends Header and the Referer to no other host.
	Client *http.Client
	// Period is the time from the end of a poll to the next. A random tenth is added or subtracted,
	// so that the nodes of a site started together do not poll together. Defaults to DefaultPeriod.
	Period time.Duration
	// Random returns values in [0, 1) that spread the polls of many nodes. It may be called
	// concurrently. Defaults to package math/rand/v2. A repeatable simulation passes its own.
	Random func() float64
	// Problem is called with an *Error once for each new kind of problem, and with nil once all
	// problems have ended. It is always called from the goroutine of Run. Defaults to Logger, at
	// level warn for a problem and info for the end.
	Problem func(err error)
	// Logger defaults to none.
	Logger *zap.Logger
}

// Source is a podconfig.Source of static pods from a URL.
type Source struct {
	url     *neturl.URL
	shown   string // url without secrets
	limit   int64  // of the size of a body
	decode  func(data []byte, o manifest.Origin) ([]*v1.Pod, error)
	header  http.Header
	client  *http.Client
	own     bool // client is private to the source
	period  time.Duration
	random  func() float64
	report  reporter
	started atomic.Bool // Run was called

	// The goroutine that calls Run or Poll owns all fields below.
	good     bool // pods come from a valid or empty body
	goodSum  sum
	pods     []*v1.Pod
	last     body
	failures int // before the first valid body
}

var _ podconfig.Source = (*Source)(nil)

// New returns a Source. It sends no request. Its errors do not contain the URL.
func New(c Config) (*Source, error) {
	u, err := parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: URL: %w", ErrConfig, err)
	}
	if err := c.Decoder.Check(); err != nil {
		return nil, fmt.Errorf("%w: Decoder: %w", ErrConfig, err)
	}
	if c.Period < 0 {
		return nil, fmt.Errorf("%w: Period %v must not be negative", ErrConfig, c.Period)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		if slices.Contains(conditions, http.CanonicalHeaderKey(name)) {
			return nil, fmt.Errorf("%w: Header: %s is the source's own to send", ErrConfig, http.CanonicalHeaderKey(name))
		}
	}
	s := &Source{url: u, shown: show(u), limit: c.Decoder.Limit(), decode: c.Decode, header: http.Header{}, client: c.Client, period: cmp.Or(c.Period, DefaultPeriod)}
	for name, values := range c.Header {
		s.header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if s.decode == nil {
		s.decode = c.Decoder.Pods
	}
	if s.client == nil {
		s.client, s.own = newClient(s.header), true
	}
	if s.random = c.Random; s.random == nil {
		s.random = rand.Float64
	}
	log := cmp.Or(c.Logger, zap.NewNop())
	s.report = reporter{problem: c.Problem, log: log.With(zap.String("url", s.shown))}
	return s, nil
}

// Name returns podconfig.SourceHTTP.
func (s *Source) Name() string { return podconfig.SourceHTTP }

// URL returns the polled URL without user, password, query and fragment. It is suitable for logs,
// and is the Location of the manifests' Origin.
func (s *Source) URL() string { return s.shown }

// conditions are the conditional request headers.
var conditions = []string{"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range"}

// parse parses a URL. Unlike the errors of net/url, its errors do not contain the URL.
func parse(text string) (*neturl.URL, error) {
	u, err := neturl.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("is empty")
	case err != nil:
		return nil, errors.New("is not well-formed")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	}
	return u, nil
}

// show returns the URL without secrets.
func show(u *neturl.URL) string {
	plain := neturl.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return plain.String()
}
