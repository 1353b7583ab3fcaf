// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The defaults of a node of a cluster are those that hardening guides ask for.
func TestDefaultsAreHardened(t *testing.T) {
	f, err := parseFlags([]string{"--kubeconfig", "kubelet.conf"})
	require.NoError(t, err)
	assert.False(t, f.server.anonymous)
	assert.Equal(t, modeWebhook, f.server.mode)
	assert.True(t, f.server.tokens)
	assert.Zero(t, f.port, "no port without authentication")
	assert.False(t, f.profiling)
	assert.Equal(t, "127.0.0.1", f.address)
	assert.Equal(t, "127.0.0.1", f.server.healthzAddress)
	assert.True(t, f.server.debugging, "kubectl logs and exec need it")
	assert.True(t, f.identity.rotate)
	assert.EqualValues(t, tls.VersionTLS12, f.identity.tlsVersion)
	assert.Equal(t, 4*time.Hour, f.server.idle)
	assert.Empty(t, f.identity.ciphers, "nodeserver.NewTLSConfig has the strong ones")
}

// Errors of the flags for certificates name the flag.
func TestIdentityFlagsAreChecked(t *testing.T) {
	cluster := []string{"--kubeconfig", "kubelet.conf"}
	for want, args := range map[string][]string{
		"--bootstrap-kubeconfig without --kubeconfig":                           {"--bootstrap-kubeconfig", "b", "."},
		`--tls-min-version "VersionTLS10"`:                                      append(cluster, "--tls-min-version", "VersionTLS10"),
		`--tls-cipher-suites "TLS_RSA_WITH_RC4_128_SHA": unknown or insecure`:   append(cluster, "--tls-cipher-suites", "TLS_RSA_WITH_RC4_128_SHA"),
		"--rotate-server-certificates without --port":                           append(cluster, "--rotate-server-certificates", "--port", "0"),
		"--rotate-server-certificates and --tls-cert-file: give one of them":    append(cluster, "--rotate-server-certificates", "--tls-cert-file", "c", "--tls-private-key-file", "k"),
		"--authorization-webhook-cache-unauthorized-ttl 0s: want more than 0":   append(cluster, "--authorization-webhook-cache-unauthorized-ttl", "0s"),
		"--streaming-connection-idle-timeout -1s: want 0 or more":               append(cluster, "--streaming-connection-idle-timeout", "-1s"),
		"--tls-cert-file and --tls-private-key-file: give both of them or none": append(cluster, "--tls-cert-file", "c"),
		`--authorization-mode "AlwaysDeny": want Webhook or AlwaysAllow`:        append(cluster, "--authorization-mode", "AlwaysDeny"),
		"--authorization-mode Webhook asks an API server: give --kubeconfig":    {"--port", "10250", "."},
	} {
		_, err := parseFlags(args)
		assert.ErrorContains(t, err, want)
	}
	f, err := parseFlags(append(cluster, "--tls-min-version", "VersionTLS13", "--rotate-certificates=false", "--tls-cipher-suites", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"))
	require.NoError(t, err)
	assert.EqualValues(t, tls.VersionTLS13, f.identity.tlsVersion)
	assert.False(t, f.identity.rotate)
	assert.Equal(t, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}, f.identity.ciphers)
}
