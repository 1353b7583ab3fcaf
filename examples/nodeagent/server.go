// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeconfig"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

// newServer listens on --port and returns the function that serves the kubelet's endpoints until its
// context ends.
func newServer(ctx context.Context, f flags, parts serverParts) (func(context.Context), error) {
	if f.server.port == 0 {
		return func(context.Context) {}, nil
	}
	certificate, guard, err := secure(f, parts.identity, parts.log)
	if err != nil {
		return nil, err
	}
	parts.metrics.watchIdentity(parts.identity)
	parts.metrics.watchClaims(parts.usage)
	server, err := nodeserver.New(nodeserver.Options{
		Guard: guard, Groups: groups(f, parts), Observer: parts.metrics.requests(), Logger: parts.log,
	})
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, f.address, f.server.port)
	if err != nil {
		return nil, fmt.Errorf("serve kubectl: %w (choose another --port, or 0 for none)", err)
	}
	return func(ctx context.Context) {
		if err := server.Serve(ctx, tls.NewListener(listener, certificate)); err != nil {
			parts.log.Error("--port is not served any more", zap.Error(err))
		}
	}, nil
}

// secure returns the TLS configuration of --port, and the check of every request.
func secure(f flags, own *identity, log *zap.Logger) (*tls.Config, func(http.Handler) http.Handler, error) {
	opts := nodeserver.TLSOptions{MinVersion: f.identity.tlsVersion, CipherSuites: f.identity.ciphers}
	guard := nodeserver.GuardOptions{Node: f.node, Anonymous: f.server.anonymous, Authorizer: nodeserver.AlwaysAllow{}, Logger: log}
	var err error
	switch {
	case f.identity.rotateOwn:
		opts.Certificate = own.certificate
	case f.server.certFile != "":
		opts.Certificate, err = nodeserver.KeyPair(f.server.certFile, f.server.keyFile, log)
	default:
		opts.Certificate, err = nodeserver.SelfSigned(nodeserver.SelfSignedOptions{Dir: f.server.certDir, Host: f.node, IPs: f.ownIPs, Logger: log})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--tls-cert-file, --cert-dir: %w", err)
	}
	if f.server.clientCA != "" {
		if opts.ClientAuthorities, err = nodeserver.Authorities(f.server.clientCA, log); err != nil {
			return nil, nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		guard.Authenticators = append(guard.Authenticators, nodeserver.Certificates(opts.ClientAuthorities))
	}
	if own != nil {
		if err := useReviews(f, own, &guard); err != nil {
			return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	wrap, err := nodeserver.NewGuard(guard)
	if err != nil {
		return nil, nil, fmt.Errorf("--client-ca-file, --authentication-token-webhook, --anonymous-auth: %w", err)
	}
	config, err := nodeserver.NewTLSConfig(opts)
	return config, wrap, err
}

// useReviews lets the API server of --kubeconfig decide on tokens and permissions.
func useReviews(f flags, own *identity, guard *nodeserver.GuardOptions) error {
	reviews, err := nodeserver.NewReviews(own.client.Config())
	if err != nil {
		return err
	}
	if f.server.tokens {
		guard.Authenticators = append(guard.Authenticators, nodeserver.Tokens(reviews, nodeserver.TokenOptions{TTL: f.server.tokenTTL}))
	}
	if f.server.mode == modeWebhook {
		guard.Authorizer = nodeserver.Access(reviews, nodeserver.AccessOptions{AllowTTL: f.server.allowTTL, DenyTTL: f.server.denyTTL})
	}
	return nil
}

// ownIPs returns the addresses of a self-signed certificate.
func (f *flags) ownIPs() (ips []net.IP) {
	for _, text := range append(f.hostIPs(context.Background()), "127.0.0.1") {
		ips = append(ips, net.ParseIP(text))
	}
	return ips
}

// idleTimeout returns the limit of idle streams. A negative result means no limit.
func (s *serverFlags) idleTimeout() time.Duration {
	if s.idle == 0 {
		return -1
	}
	return s.idle
}

// debugPaths are the endpoints of --enable-debugging-handlers, as in the kubelet (1.36).
var debugPaths = []string{"/run", "/exec", "/attach", "/portForward", "/containerLogs", "/runningpods", "/debug/pprof", "/logs"}

// usageHandler returns the endpoints of --read-only-port below /stats/ and of its further metrics.
func usageHandler(usage *collector) (http.Handler, error) {
	return nodeserver.Open(nodeserver.StatsSummary(usage), nodeserver.ResourceMetrics(usage), nodeserver.ContainerMetrics(usage))
}

// groups returns the endpoints of --port.
func groups(f flags, parts serverParts) []nodeserver.Group {
	program := nodeserver.Program{Name: "keelson", Started: time.Now(), Version: versions("nodeagent", f.version), Paths: []string{
		"/configz", "/debug", "/flagz", "/healthz", "/metrics", "/pods", "/runningpods", "/stats", "/statusz",
	}}
	all := []nodeserver.Group{
		nodeserver.Health(parts.checks()...),
		nodeserver.Pods(parts.agent.Pods),
		nodeserver.StatsSummary(parts.usage),
		nodeserver.ResourceMetrics(parts.usage),
		nodeserver.ContainerMetrics(parts.usage),
		nodeserver.SLIs(parts.checks()...),
		nodeserver.Handle("/metrics", parts.metrics),
		nodeserver.Handle("/metrics/probes", http.HandlerFunc(parts.metrics.serveProbes)),
	}
	if !f.server.debugging {
		return append(all, nodeserver.Disabled("Debug endpoints are disabled.", debugPaths...))
	}
	all = append(all,
		nodeserver.RunningPods(parts.runtime.List),
		nodeserver.Logs(nodeserver.LogOptions{Pods: parts.find, Runtime: parts.runtime, Logger: parts.log}),
		nodeserver.Streams(nodeserver.StreamOptions{Pods: parts.find, Runtime: parts.runtime, IdleTimeout: f.server.idleTimeout(), Logger: parts.log}),
		nodeserver.RunCommand(parts.find, parts.runtime),
		nodeserver.Checkpoint(nodeserver.CheckpointOptions{Pods: parts.find, Runtime: parts.runtime, Dir: filepath.Join(f.root, "checkpoints")}),
		nodeserver.Config(f.configuration),
		nodeserver.Flags("keelson", func() map[string]string { return f.values }),
		nodeserver.Status(program),
	)
	if f.profiling {
		all = append(all, nodeserver.Handle("/debug/pprof/", http.HandlerFunc(profile)))
	} else {
		all = append(all, nodeserver.Disabled("profiling endpoint is disabled.", "/debug/pprof/"))
	}
	if f.host.logLevel {
		all = append(all, nodeserver.LogVerbosity(parts.verbosity.set))
	} else {
		all = append(all, nodeserver.Disabled("flags endpoint is disabled.", "/debug/flags/v"))
	}
	if !f.server.systemLogs {
		return append(all, nodeserver.Disabled("logs endpoint is disabled.", "/logs/"))
	}
	folder, err := os.OpenRoot("/var/log") // open as long as the program runs
	switch {
	case err != nil:
		return all
	case f.host.logQueries:
		return append(all, nodeserver.NodeLogsWithQueries(folder.FS(), nodeserver.Journalctl("journalctl")))
	}
	return append(all, nodeserver.NodeLogs(folder.FS()))
}

// configuration returns the KubeletConfiguration with the effect of the flags. Package nodeconfig
// knows a flag for each field, and reads the value of the flag from the flag's text.
func (f *flags) configuration() (any, error) {
	return nodeconfig.Effective(f.values)
}

// find returns the pod with the namespace and name. While a new pod replaces a pod of the same name,
// find returns the new pod, by the time of creation.
func (p *serverParts) find(namespace, name string) (found *v1.Pod) {
	for _, pod := range p.agent.Pods() {
		if pod.Namespace == namespace && pod.Name == name && (found == nil || found.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			found = pod
		}
	}
	return found
}
