// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// configured parses flags with a configuration file of these fields.
func configured(t *testing.T, fields string, args ...string) (flags, error) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + fields
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return parseFlags(append([]string{"--root-dir", t.TempDir(), "--kubeconfig", "k", "--config", file}, args...))
}

func TestAConfigurationFile(t *testing.T) {
	f, err := configured(t, `
staticPodPath: .
maxPods: 7
port: 10251
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
imageMinimumGCAge: 5m
systemReserved: {memory: 1Mi}
registerWithTaints: [{key: edge, value: "yes", effect: NoSchedule}]
authorization: {mode: AlwaysAllow}
hairpinMode: promiscuous-bridge
`, "--max-pods", "9")
	require.NoError(t, err)
	require.DirExists(t, f.manifests)
	require.Equal(t, 9, f.offer.maxPods, "the command line is stronger")
	require.Equal(t, 10251, f.server.port)
	require.Zero(t, f.port)
	require.Equal(t, "0.0.0.0", f.address)
	require.Equal(t, "unix:///run/containerd/containerd.sock", f.endpoint)
	require.Equal(t, []string{"10.96.0.10"}, f.dns.servers)
	require.Equal(t, "5m0s", f.imageMin.String())
	require.Equal(t, "edge", f.offer.taints[0].Key)
	require.Equal(t, modeAlwaysAllow, f.server.mode)

	core, logs := observer.New(zap.InfoLevel)
	f.config.tell(zap.New(core))
	require.Equal(t, 1, logs.Len())
	require.Equal(t, "hairpinMode", logs.All()[0].ContextMap()["field"])
}

func TestAConfigurationFileThatIsRefused(t *testing.T) {
	for fields, want := range map[string]string{
		"cpuManagerPolicy: static":                                  "config.yaml:3: cpuManagerPolicy",
		"imageGCHighThresholdPercent: 101":                          "--image-gc-high-threshold 101",
		"imageMinimumGCAge: x":                                      "imageMinimumGCAge",
		"systemReserved: {memory: much}":                            "--system-reserved",
		"authorization: {mode: AskMyMother}":                        "--authorization-mode",
		"clusterDNS: [dns.example.com]":                             "--cluster-dns",
		"enableSystemLogQuery: true\nenableSystemLogHandler: false": "--enable-system-log-query needs --enable-system-log-handler",
		"maxPods: 99999999999999999999999999":                       "maxPods",
	} {
		_, err := configured(t, fields)
		require.ErrorContains(t, err, want, fields)
	}
	_, err := parseFlags([]string{t.TempDir(), "--config", filepath.Join(t.TempDir(), "none")})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A configuration file without the fields of pulls leaves the agent's own default.
func TestPullsOfAConfigurationFile(t *testing.T) {
	for fields, want := range map[string]any{
		"":                           4,
		"serializeImagePulls: true":  1,
		"serializeImagePulls: false": math.MaxInt32,
		"maxParallelImagePulls: 7":   7,
		"serializeImagePulls: false\nmaxParallelImagePulls: 2": 2,
		"serializeImagePulls: true\nmaxParallelImagePulls: 1":  1,
		"serializeImagePulls: true\nmaxParallelImagePulls: 2":  "--max-parallel-image-pulls 2 and --serialize-image-pulls: give one of them",
		"maxParallelImagePulls: 0":                             "--max-parallel-image-pulls 0: want 1 or more",
	} {
		f, err := configured(t, fields)
		if text, ok := want.(string); ok {
			require.ErrorContains(t, err, text, fields)
			continue
		}
		require.NoError(t, err, fields)
		require.Equal(t, want, f.pulls.limit, fields)
	}
}

// Without a server, nothing waits for its certificate, and no profiles are served without
// authentication.
func TestAConfigurationFileWithoutAServer(t *testing.T) {
	f, err := configured(t, "enableServer: false\nserverTLSBootstrap: true\nenableProfilingHandler: true\nreadOnlyPort: 10255\nport: 10250")
	require.NoError(t, err)
	require.Zero(t, f.server.port)
	require.False(t, f.identity.rotateOwn)
	require.False(t, f.profilesReadOnly())
	for fields, want := range map[string]bool{
		"enableProfilingHandler: true\nport: 10250":                                 false,
		"enableProfilingHandler: true\nenableDebuggingHandlers: false\nport: 10250": false,
	} {
		f, err = configured(t, fields)
		require.NoError(t, err)
		require.Equal(t, want, f.profilesReadOnly(), fields)
	}
	f, err = parseFlags([]string{"--profiling", t.TempDir()})
	require.NoError(t, err)
	require.True(t, f.profilesReadOnly(), "a node without a server for kubectl")
}

// The gate of the pods API is known. All other gates are logged, because whether they matter depends on their version.
func TestFeatureGatesOfAConfigurationFile(t *testing.T) {
	f, err := configured(t, "featureGates: {PodsAPI: true, NodeSwap: false}\n")
	require.NoError(t, err)
	require.True(t, f.gates.podsAPI)
	core, logs := observer.New(zap.InfoLevel)
	f.gates.tell(zap.New(core))
	require.Equal(t, 1, logs.Len())
	require.Equal(t, map[string]any{"gate": "NodeSwap", "value": "false"}, logs.All()[0].ContextMap())

	f, err = configured(t, "")
	require.NoError(t, err)
	require.False(t, f.gates.podsAPI)
	_, err = configured(t, "featureGates: {PodsAPI: perhaps}\n")
	require.ErrorContains(t, err, "--feature-gates PodsAPI=perhaps")
	_, err = configured(t, "featureGates: {PodsAPI: true}\n", "--root-dir", "/"+strings.Repeat("x", 100))
	require.ErrorContains(t, err, "the path of a socket has at most 107 bytes")
}

// Each field that is a flag by fields.txt can be set: the flag exists.
func TestEachFlagOfTheConfigurationExists(t *testing.T) {
	fields := `
staticPodPath: .
podLogsDir: logs
httpCheckFrequency: 1m
staticPodURL: http://127.0.0.1:1/
staticPodURLHeader: {A: [b]}
address: 127.0.0.1
port: 10251
readOnlyPort: 10256
tlsCertFile: a
tlsPrivateKeyFile: b
tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
tlsMinVersion: VersionTLS13
rotateCertificates: true
serverTLSBootstrap: false
authentication: {x509: {clientCAFile: c}, webhook: {enabled: true, cacheTTL: 1m}, anonymous: {enabled: false}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 1m, cacheUnauthorizedTTL: 10s}}
containerLogMaxSize: 1Mi
containerLogMaxFiles: 3
seccompDefault: true
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
imageMinimumGCAge: 1m
imageMaximumGCAge: 1h
imageGCHighThresholdPercent: 85
imageGCLowThresholdPercent: 80
maxPods: 10
resolvConf: /etc/resolv.conf
systemReserved: {cpu: 1m}
kubeReserved: {cpu: 1m}
allowedUnsafeSysctls: [net.*]
registerWithTaints: [{key: a, effect: NoSchedule}]
registerNode: true
containerRuntimeEndpoint: unix:///run/crio/crio.sock
healthzPort: 10248
healthzBindAddress: 127.0.0.1
enableServer: true
streamingConnectionIdleTimeout: 1h
enableDebuggingHandlers: true
enableProfilingHandler: true
serializeImagePulls: false
maxParallelImagePulls: 3
imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages
preloadedImagesVerificationAllowlist: [registry.example/team/*]
enableSystemLogHandler: false
nodeStatusUpdateFrequency: 20s
nodeStatusReportFrequency: 10m
nodeLeaseDurationSeconds: 30
nodeStatusMaxImages: 0
podsPerCore: 10
providerID: aws:///a/b
memorySwap: {swapBehavior: NoSwap}
memoryThrottlingFactor: 0
memoryReservationPolicy: None
cgroupRoot: /a
cgroupsPerQOS: true
cgroupDriver: systemd
podPidsLimit: 100
systemReservedCgroup: /system.slice
kubeReservedCgroup: /runtime.slice
enforceNodeAllocatable: [pods, system-reserved, kube-reserved-compressible]
crashLoopBackOff: {maxContainerRestartPeriod: 10s}
featureGates: {PodsAPI: true}
logging: {verbosity: 1}
enableSystemLogQuery: false
enableDebugFlagsHandler: false
enableContentionProfiling: true
protectKernelDefaults: true
failSwapOn: true
failCgroupV1: false
evictionHard: {memory.available: 200Mi}
evictionSoft: {nodefs.available: 20%}
evictionSoftGracePeriod: {nodefs.available: 1m}
evictionMinimumReclaim: {nodefs.available: 1Gi}
evictionPressureTransitionPeriod: 1m
evictionMaxPodGracePeriod: 30
mergeDefaultEvictionSettings: true
shutdownGracePeriodByPodPriority: [{priority: -5, shutdownGracePeriodSeconds: 9}]
`
	f, err := configured(t, fields)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"-5": 9}, f.shutdown.byPriority)
	require.True(t, f.keepPods)
	f, err = configured(t, "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n")
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, f.shutdown.longest())
	require.True(t, f.keepPods)

	table, err := os.ReadFile("nodeconfig/fields.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		words := strings.Fields(line)
		if words[0] == "#" || words[2] == "only" || words[2] == "ignore" {
			continue
		}
		if strings.HasPrefix(words[0], "shutdownGracePeriod") {
			continue // above
		}
		parts := strings.Split(words[0], ".")
		require.Contains(t, fields, parts[len(parts)-1]+":", "a field that this test does not set")
	}
}

// What /configz serves is a configuration file with the effect of the flags: a program that reads it,
// changes a field and writes it to the file, changes that field only.
func TestTheServedConfigurationIsAConfigurationFile(t *testing.T) {
	for _, fields := range []string{"", `
maxPods: 7
clusterDNS: [10.96.0.10]
evictionHard: {memory.available: 5%, pid.available: "100"}
evictionSoft: {nodefs.available: 20%}
evictionSoftGracePeriod: {nodefs.available: 1m30s}
evictionMinimumReclaim: {nodefs.available: 1Gi}
featureGates: {PodsAPI: false}
systemReserved: {memory: 1Mi, cpu: 100m}
enforceNodeAllocatable: [none]
registerWithTaints: [{key: edge, value: "yes", effect: NoSchedule}, {key: edge, effect: NoExecute}]
shutdownGracePeriodByPodPriority: [{priority: -1, shutdownGracePeriodSeconds: 10}]
serializeImagePulls: false
resolvConf: ""
containerLogMaxSize: 512Ki
crashLoopBackOff: {maxContainerRestartPeriod: 5s}
`} {
		first, err := configured(t, fields)
		require.NoError(t, err)
		served, err := first.configuration()
		require.NoError(t, err)
		text, err := json.Marshal(served)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "served.json")
		require.NoError(t, os.WriteFile(file, text, 0o600))
		second, err := parseFlags([]string{"--root-dir", first.root, "--kubeconfig", "k", "--config", file})
		require.NoError(t, err)
		delete(first.values, "config")
		delete(second.values, "config")
		require.Equal(t, first.values, second.values)
		require.Empty(t, second.config.notices)
	}
}
