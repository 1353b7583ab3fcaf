// SPDX-License-Identifier: Apache-2.0

package url

import (
	"errors"
	"fmt"
	"maps"
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
	// DefaultTimeout is how long one poll may take, as in the kubelet.
	DefaultTimeout = 10 * time.Second
)

// Errors of New and Run.
var (
	// ErrConfig is a Config that cannot work; the error names the field.
	ErrConfig = errors.New("url source: bad config")
	// ErrRunning is a second Run of one Source.
	ErrRunning = errors.New("url source: Run was called before")
)

// Config of a Source.
type Config struct {
	// URL is where the manifest is: a Pod or a PodList, as YAML or JSON. Its scheme is http or https; it may hold a user
	// and a password. Scheme, host and path are part of the identity of the pods, user and query are not. Required.
	URL string
	// Decoder turns the body into pods; its MaxBytes bounds the body. Required.
	Decoder *manifest.Decoder
	// Header goes with every request, which otherwise has the headers that net/http adds. It is copied, and must not hold
	// conditions (If-None-Match and the like). Defaults to none.
	Header http.Header
	// Client sends the requests, and decides about TLS, proxies and redirects. Its Timeout counts beside the one below.
	// Defaults to a client of the source's own, with the system's authorities and the environment's proxy, which follows
	// up to ten redirects, none of them from https to http, and takes Header and the Referer to no other host.
	Client *http.Client
	// Period is the time from the end of one poll to the next, give or take a tenth at random, so that the nodes of a site
	// that have started together do not poll together. Defaults to DefaultPeriod.
	Period time.Duration
	// Timeout is how long one poll may take, from the connection to the last byte of the body. Defaults to DefaultTimeout.
	Timeout time.Duration
	// Problem is called once for each new kind of problem, with an *Error, and once with nil when all is well again, always
	// from the goroutine that runs Run. Defaults to Logger: at level warn, respectively info.
	Problem func(err error)
	// Logger defaults to none.
	Logger *zap.Logger
}

// Source is a podconfig.Source of the static pods that a URL names.
type Source struct {
	url     *neturl.URL
	shown   string // url without secrets
	decoder *manifest.Decoder
	header  http.Header
	client  *http.Client
	own     bool // client is the source's own
	period  time.Duration
	timeout time.Duration
	report  reporter
	started atomic.Bool // by Run

	// All below is owned by the goroutine that runs Run, or calls Poll.
	good     bool // pods is what a good body said, or an empty one
	goodSum  sum
	pods     []*v1.Pod
	last     body
	failures int // until good
}

var _ podconfig.Source = (*Source)(nil)

// New returns a Source. It sends nothing yet. No error repeats the URL.
func New(c Config) (*Source, error) {
	u, err := parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: URL: %w", ErrConfig, err)
	}
	if err := c.Decoder.Check(); err != nil {
		return nil, fmt.Errorf("%w: Decoder: %w", ErrConfig, err)
	}
	if c.Period < 0 || c.Timeout < 0 {
		return nil, fmt.Errorf("%w: Period %v and Timeout %v must not be negative", ErrConfig, c.Period, c.Timeout)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		if slices.Contains(conditions, http.CanonicalHeaderKey(name)) {
			return nil, fmt.Errorf("%w: Header: %s is the source's own to send", ErrConfig, http.CanonicalHeaderKey(name))
		}
	}
	s := &Source{url: u, shown: show(u), decoder: c.Decoder, header: http.Header{}, client: c.Client,
		period: c.Period, timeout: c.Timeout}
	for name, values := range c.Header {
		s.header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if s.client == nil {
		s.client, s.own = newClient(s.header), true
	}
	if s.period == 0 {
		s.period = DefaultPeriod
	}
	if s.timeout == 0 {
		s.timeout = DefaultTimeout
	}
	log := c.Logger
	if log == nil {
		log = zap.NewNop()
	}
	s.report = reporter{problem: c.Problem, log: log.With(zap.String("url", s.shown))}
	return s, nil
}

// Name returns podconfig.SourceHTTP.
func (s *Source) Name() string { return podconfig.SourceHTTP }

// URL returns what is polled, without user, password, query and fragment: fit for logs, and the Location of the
// manifests' Origin.
func (s *Source) URL() string { return s.shown }

// conditions are the request headers that say which answer is wanted.
var conditions = []string{"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range"}

// parse parses a URL. Its errors do not repeat it, as those of net/url do.
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

// show leaves out what may be a secret.
func show(u *neturl.URL) string {
	plain := neturl.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return plain.String()
}
