// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/runtime"
)

// serverFlags are the flags of the kubelet's server, which kubectl and the API server use. Names are
// the kubelet's. The defaults are those of the kubelet's configuration file, except for the address.
type serverFlags struct {
	port      int
	certFile  string
	keyFile   string
	certDir   string
	clientCA  string
	anonymous bool
	tokens    bool
	mode      string
	tokenTTL  time.Duration
	allowTTL  time.Duration
	denyTTL   time.Duration

	enabled    bool // --port
	debugging  bool
	systemLogs bool
	idle       time.Duration // 0: no limit

	healthzPort    int
	healthzAddress string
}

// Values of --authorization-mode.
const modeWebhook, modeAlwaysAllow = "Webhook", "AlwaysAllow"

// defaultServerPort is the default of --port on a node of a cluster.
const defaultServerPort = 10250

func (s *serverFlags) register(set *pflag.FlagSet) {
	set.IntVar(&s.port, "port", 0, fmt.Sprintf("port on --address for kubectl logs, exec, attach and port-forward, with TLS and authentication; 0 = do not serve (default %d with --kubeconfig)", defaultServerPort))
	set.StringVar(&s.certFile, "tls-cert-file", "", "certificate for --port; read again after a change (default: a self-signed certificate in --cert-dir)")
	set.StringVar(&s.keyFile, "tls-private-key-file", "", "key of --tls-cert-file")
	set.StringVar(&s.certDir, "cert-dir", "", "folder for issued and self-signed certificates (default ROOT-DIR/pki)")
	set.StringVar(&s.clientCA, "client-ca-file", "", "authorities of client certificates on --port, such as the authority of the API server")
	set.BoolVar(&s.tokens, "authentication-token-webhook", true, "accept tokens on --port that the API server of --kubeconfig knows")
	set.BoolVar(&s.anonymous, "anonymous-auth", false, "accept requests without credentials on --port")
	set.StringVar(&s.mode, "authorization-mode", modeWebhook, "how requests on --port are authorized: by the API server of --kubeconfig (Webhook), or not at all (AlwaysAllow)")
	set.DurationVar(&s.tokenTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long an accepted token is accepted without asking the API server again")
	set.DurationVar(&s.allowTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "how long a granted permission holds without asking the API server again")
	set.DurationVar(&s.denyTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "how long a refused permission holds without asking the API server again")
	set.BoolVar(&s.enabled, "enable-server", true, "serve --port; --read-only-port and --healthz-port are not affected")
	set.BoolVar(&s.debugging, "enable-debugging-handlers", true, "serve logs, exec, attach, port-forward and the like on --port; without these endpoints kubectl cannot look into pods")
	set.BoolVar(&s.systemLogs, "enable-system-log-handler", true, "serve the files of /var/log on --port, under /logs/")
	set.DurationVar(&s.idle, "streaming-connection-idle-timeout", 4*time.Hour, "end exec, attach and port-forward on --port after this time without data, although their clients send keepalive messages; 0 = never")
	set.IntVar(&s.healthzPort, "healthz-port", 0, "port on --healthz-bind-address for /healthz, which fails if the agent needs a restart; 0 = do not serve (the kubelet, and a --config without the field, have 10248)")
	set.StringVar(&s.healthzAddress, "healthz-bind-address", "127.0.0.1", "address of --healthz-port, which has no authentication")
}

// complete sets defaults and validates the flags.
func (s *serverFlags) complete(f *flags, set *pflag.FlagSet) error {
	if f.kubeconfig != "" && !f.once.on {
		if !set.Changed("port") {
			s.port = defaultServerPort
		}
		if !set.Changed("read-only-port") {
			f.port = 0
		}
	}
	if !s.enabled {
		s.port, s.debugging = 0, false
	}
	if s.certDir == "" {
		s.certDir = filepath.Join(f.root, "pki")
	}
	switch {
	case s.healthzPort < 0 || s.healthzPort > 65535:
		return fmt.Errorf("--healthz-port %d: want 0 to 65535", s.healthzPort)
	case net.ParseIP(s.healthzAddress) == nil:
		return fmt.Errorf("--healthz-bind-address %q: want an IP address", s.healthzAddress)
	case s.port < 0 || s.port > 65535:
		return fmt.Errorf("--port %d: want 0 to 65535", s.port)
	case s.port == 0:
		return nil
	case s.port == f.port:
		return fmt.Errorf("--port and --read-only-port are both %d", s.port)
	case s.tokenTTL <= 0 || s.allowTTL <= 0 || s.denyTTL <= 0:
		return fmt.Errorf("--authentication-token-webhook-cache-ttl %v, --authorization-webhook-cache-authorized-ttl %v, --authorization-webhook-cache-unauthorized-ttl %v: want more than 0", s.tokenTTL, s.allowTTL, s.denyTTL)
	case s.idle < 0:
		return fmt.Errorf("--streaming-connection-idle-timeout %v: want 0 or more", s.idle)
	case (s.certFile == "") != (s.keyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file: give both of them or none")
	case s.mode != modeWebhook && s.mode != modeAlwaysAllow:
		return fmt.Errorf("--authorization-mode %q: want %s or %s", s.mode, modeWebhook, modeAlwaysAllow)
	case s.mode == modeWebhook && f.kubeconfig == "":
		return fmt.Errorf("--authorization-mode %s asks an API server: give --kubeconfig, or --port 0", modeWebhook)
	}
	s.tokens = s.tokens && f.kubeconfig != ""
	return nil
}

// readyPatience limits a check whether agent and runtime are ready, for the Node object.
const readyPatience = 2 * time.Second

// serverParts are the parts of the agent that the server of --port shows.
type serverParts struct {
	agent    *node.Agent
	runtime  runtime.Runtime
	usage    *collector
	devices  *deviceManager
	metrics  *metrics
	identity *identity // nil without --kubeconfig
	log      *zap.Logger

	verbosity *verbosity
}
