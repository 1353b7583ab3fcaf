// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodeidentity"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
)

// identityFlags are the flags for the node's certificates. Names are the kubelet's.
type identityFlags struct {
	bootstrap   string
	rotate      bool
	rotateOwn   bool // the serving certificate
	minVersion  string
	cipherNames []string

	tlsVersion uint16 // this and the following field are set by complete
	ciphers    []uint16
}

// tlsVersions are the values of --tls-min-version.
var tlsVersions = map[string]uint16{"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13}

func (i *identityFlags) register(set *pflag.FlagSet) {
	set.StringVar(&i.bootstrap, "bootstrap-kubeconfig", "", "kubeconfig with credentials to request a client certificate for this node; a missing --kubeconfig is written")
	set.BoolVar(&i.rotate, "rotate-certificates", true, "if --kubeconfig has this node's client certificate: request the next certificate before the expiry")
	set.BoolVar(&i.rotateOwn, "rotate-server-certificates", false, "request the certificate of --port from the API server, too; an administrator must approve the request")
	set.StringVar(&i.minVersion, "tls-min-version", "VersionTLS12", "lowest version of TLS on --port: VersionTLS12 or VersionTLS13")
	set.StringSliceVar(&i.cipherNames, "tls-cipher-suites", nil, "cipher suites of TLS 1.2 on --port, as `name,...` (default those with forward secrecy and authenticated encryption)")
}

// complete validates the flags.
func (i *identityFlags) complete(f *flags) error {
	if i.tlsVersion = tlsVersions[i.minVersion]; i.tlsVersion == 0 {
		return fmt.Errorf("--tls-min-version %q: want VersionTLS12 or VersionTLS13", i.minVersion)
	}
	for _, name := range i.cipherNames {
		known := slices.IndexFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.Name == name })
		if known < 0 {
			return fmt.Errorf("--tls-cipher-suites %q: unknown or insecure", name)
		}
		i.ciphers = append(i.ciphers, tls.CipherSuites()[known].ID)
	}
	i.rotateOwn = i.rotateOwn && f.server.enabled
	switch {
	case i.bootstrap != "" && f.kubeconfig == "":
		return errors.New("--bootstrap-kubeconfig without --kubeconfig")
	case i.rotateOwn && f.server.port == 0:
		return errors.New("--rotate-server-certificates without --port")
	case i.rotateOwn && f.kubeconfig == "":
		return errors.New("--rotate-server-certificates without --kubeconfig")
	case i.rotateOwn && f.server.certFile != "":
		return errors.New("--rotate-server-certificates and --tls-cert-file: give one of them")
	}
	return nil
}

// identity has the certificates of this node.
type identity struct {
	client        *nodeidentity.Client
	clientIssues  issues
	serving       *nodeidentity.Manager // nil without --rotate-server-certificates
	servingIssues issues
}

// issues counts the attempts to get a certificate, for metrics.
type issues struct {
	failed   atomic.Uint64
	replaced func(age time.Duration) // set before the first attempt; nil without metrics
}

// observer returns the callbacks that count.
func (i *issues) observer() nodeidentity.Observer {
	return nodeidentity.Observer{
		Failed: func(error) { i.failed.Add(1) },
		Replaced: func(age time.Duration) {
			if i.replaced != nil {
				i.replaced(age)
			}
		},
	}
}

// newIdentity reads --kubeconfig, and the certificates of earlier starts. It sends no request.
func newIdentity(f flags, log *zap.Logger) (*identity, error) {
	i := &identity{}
	client, err := nodeidentity.NewClient(nodeidentity.ClientOptions{
		Node: f.node, Kubeconfig: f.kubeconfig, Bootstrap: f.identity.bootstrap, Dir: f.server.certDir,
		OnlyExpired: !f.identity.rotate, Observer: i.clientIssues.observer(), Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	i.client = client
	return i, nil
}

// serve sets up the serving certificate. Failures of its requests become events of the node, because
// an administrator has to approve the requests.
func (i *identity) serve(f flags, events nodestatus.EventRecorder, log *zap.Logger) error {
	store, err := nodeidentity.NewStore(f.server.certDir, nodeidentity.ServingPrefix)
	if err != nil {
		return fmt.Errorf("--cert-dir: %w", err)
	}
	observer := i.servingIssues.observer()
	count := observer.Failed
	node := feature.NodeReference(f.node)
	observer.Issued = func(end time.Time) {
		events.Event(node, v1.EventTypeNormal, "ServingCertificateIssued", "The serving certificate is valid until "+end.Format(time.RFC3339))
	}
	observer.Failed = func(err error) {
		count(err)
		events.Event(node, v1.EventTypeWarning, "ServingCertificatePending", err.Error())
	}
	i.serving, err = nodeidentity.New(nodeidentity.Options{
		Store:  store,
		Signer: certificatesv1.KubeletServingSignerName,
		Template: func() (nodeidentity.Template, bool) {
			return nodeidentity.ServingTemplate(f.node, nodeAddresses(f.node, f.hostIPs(context.Background())))
		},
		Requester: func(*tls.Certificate, error) (nodeidentity.Requester, error) {
			return nodeidentity.NewRequester(i.client.Config())
		},
		Observer: observer,
		Logger:   log,
	})
	return err
}

var errNoServingCertificate = errors.New("no serving certificate has been issued yet: kubectl get csr")

// certificate returns the serving certificate of a handshake.
func (i *identity) certificate() (*tls.Certificate, error) {
	if pair := i.serving.Current(); pair != nil {
		return pair, nil
	}
	return nil, errNoServingCertificate
}

// run keeps the certificates valid until ctx ends.
func (i *identity) run(ctx context.Context) error {
	if i.serving == nil {
		return i.client.Run(ctx)
	}
	return together(i.client.Run, i.serving.Run)(ctx)
}
