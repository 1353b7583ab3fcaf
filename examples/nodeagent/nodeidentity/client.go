// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/connrotation"
)

// ClientOptions configures a Client.
type ClientOptions struct {
	// Node is the name of the node. Required.
	Node string
	// Kubeconfig is the path of the file with the API server and the credentials. If Bootstrap is
	// set, a missing or unusable file is written. Required.
	Kubeconfig string
	// Bootstrap is the path of a kubeconfig whose credentials allow requests for a client
	// certificate. Defaults to none.
	Bootstrap string
	// Dir is the folder of certificates. Required.
	Dir string
	// OnlyExpired keeps the certificate until it has expired. The certificate of another kubeconfig is never replaced.
	OnlyExpired bool
	// Observer is Options.Observer.
	Observer Observer
	// Logger is Options.Logger.
	Logger *zap.Logger
}

// Client keeps the client certificate of a node valid, and presents it to the API server.
type Client struct {
	ClientOptions
	config  *rest.Config
	manager *Manager             // nil: the kubeconfig is used unchanged
	dialer  *connrotation.Dialer // nil without manager
}

// NewClient reads the kubeconfig, and writes it if needed. If the certificate of the kubeconfig has
// the node's subject, the Client keeps the certificate valid. Any other kubeconfig is used
// unchanged. NewClient sends no request.
func NewClient(opts ClientOptions) (*Client, error) {
	if opts.Node == "" || opts.Kubeconfig == "" || opts.Dir == "" {
		return nil, errors.New("nodeidentity: ClientOptions.Node, Kubeconfig and Dir are required")
	}
	var err error
	for _, path := range []*string{&opts.Kubeconfig, &opts.Dir} { // paths in the kubeconfig are absolute
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	c := &Client{ClientOptions: opts}
	store, known, err := c.read()
	if err != nil {
		return nil, err
	}
	if store == nil {
		c.config, err = clientcmd.BuildConfigFromFlags("", opts.Kubeconfig)
		return c, err
	}
	return c, c.manage(store, known)
}

// read returns the kubeconfig, after writing it if needed. The store is nil if the kubeconfig is
// used unchanged.
func (c *Client) read() (*Store, *kubeconfig, error) {
	known, err := readKubeconfig(c.Kubeconfig)
	if c.Bootstrap == "" && err != nil {
		return nil, nil, err
	}
	asItIs := err == nil && known.certPath == "" && known.pair == nil && known.pairErr == nil
	if asItIs {
		return nil, nil, nil
	}
	store, storeErr := NewStore(c.Dir, ClientPrefix)
	if storeErr != nil {
		return nil, nil, storeErr
	}
	if err == nil && known.isOfNode(c.Node, store) && (!c.OnlyExpired || c.Bootstrap != "") {
		return store, known, nil
	}
	if err == nil && (c.Bootstrap == "" || known.isUsable(time.Now())) {
		return nil, nil, nil
	}
	first, err := readKubeconfig(c.Bootstrap)
	if err != nil {
		return nil, nil, fmt.Errorf("bootstrap kubeconfig: %w", err)
	}
	if err := writeKubeconfig(c.Kubeconfig, first.cluster, store); err != nil {
		return nil, nil, err
	}
	known, err = readKubeconfig(c.Kubeconfig)
	return store, known, err
}

// manage sets up the manager of the certificate, and the clients' configuration.
func (c *Client) manage(store *Store, known *kubeconfig) (err error) {
	c.dialer = connrotation.NewDialer((&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext)
	opts := Options{
		Store:       store,
		Signer:      certificatesv1.KubeAPIServerClientKubeletSignerName,
		Template:    func() (Template, bool) { return ClientTemplate(c.Node), true },
		Requester:   c.requester,
		onlyExpired: c.OnlyExpired,
		replaced:    c.dialer.CloseAll, // the API server identifies a connection by the certificate of its handshake
		Observer:    c.Observer,
		Logger:      c.Logger,
	}
	if known.pair != nil && known.certPath != store.CurrentPath() {
		opts.initial = known.pair
	}
	if c.manager, err = New(opts); err != nil {
		return err
	}
	c.config, err = c.rotating(known.config)
	return err
}

// Config returns a configuration for clients of the API server. The caller owns the result. Before
// the first certificate, each request waits for up to ten seconds.
func (c *Client) Config() *rest.Config { return rest.CopyConfig(c.config) }

// IsManaged reports whether Run keeps the certificate valid. If not, the kubeconfig is used as it is.
func (c *Client) IsManaged() bool { return c.manager != nil }

// Certificate returns the certificate of the node, or nil if there is none, it has expired, or it is
// not managed.
func (c *Client) Certificate() *tls.Certificate {
	if c.manager == nil {
		return nil
	}
	return c.manager.Current()
}

// Run keeps the certificate valid until ctx ends, and then returns nil. Call Run once.
func (c *Client) Run(ctx context.Context) error {
	if c.manager == nil {
		<-ctx.Done()
		return nil
	}
	return c.manager.Run(ctx)
}

// requester returns a client with the node's certificate. Without a certificate, or if the API
// server does not accept the certificate, the client has the bootstrap credentials.
func (c *Client) requester(current *tls.Certificate, last error) (Requester, error) {
	if current != nil && !apierrors.IsUnauthorized(last) {
		return NewRequester(c.config)
	}
	if c.Bootstrap == "" && current == nil {
		return nil, errNoBootstrap
	}
	first, err := readKubeconfig(c.Bootstrap)
	switch {
	case err != nil && current != nil:
		return NewRequester(c.config)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoBootstrap, err)
	}
	config := rest.CopyConfig(first.config)
	if first.pair != nil {
		pair, err := encodePair(first.pair)
		if err != nil {
			return nil, err
		}
		config.CertData, config.KeyData = pair.chain, pair.key
	}
	return NewRequester(config)
}

// rotating returns a configuration with a transport that presents the current certificate.
func (c *Client) rotating(config *rest.Config) (*rest.Config, error) {
	config = rest.AnonymousClientConfig(config)
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if pair := c.manager.Current(); pair != nil {
			return pair, nil
		}
		return nil, errNoCertificate
	}
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               proxy,
		DialContext:         c.dialer.DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 25,
	})
	config.TLSClientConfig, config.Proxy = rest.TLSClientConfig{}, nil
	config.Transport = patient{transport, c.manager}
	return config, nil
}

var errNoCertificate = errors.New("the node has no client certificate yet, or it has expired")

// certificatePatience is the longest wait of a request for the first certificate.
const certificatePatience = 10 * time.Second

// patient delays requests until the first certificate.
type patient struct {
	next    *http.Transport
	manager *Manager
}

// RoundTrip implements http.RoundTripper.
func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := p.wait(r.Context()); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return p.next.RoundTrip(r)
}

// wait returns when a certificate is available.
func (p patient) wait(ctx context.Context) error {
	changed := p.manager.Changed()
	if p.manager.Current() != nil {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-time.After(certificatePatience):
		return errNoCertificate
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// CloseIdleConnections lets http.Client close connections.
func (p patient) CloseIdleConnections() { p.next.CloseIdleConnections() }
