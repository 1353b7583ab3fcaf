// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver && !nometrics

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime"
)

// plugIns writes a configuration with the plug-ins broken, which fails and tells the password, and
// ours, which answers with it. It returns the flags for them.
func (s *station) plugIns(registry, user, password string) []string {
	s.Helper()
	config, bin := filepath.Join(s.dir, "plug-ins.yaml"), filepath.Join(s.dir, "bin")
	require.NoError(s, os.Mkdir(bin, 0o755))
	text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	for name, script := range map[string]string{
		"broken": fmt.Sprintf("echo %[1]s; echo %[1]s >&2; exit 1", password),
		"ours": fmt.Sprintf(`cat <<'X'
{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "cacheKeyType": "Registry",
 "auth": {%q: {"username": %q, "password": %q}}}
X`, registry, user, password),
	} {
		require.NoError(s, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		text += fmt.Sprintf("- name: %s\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  matchImages: [%q]\n  defaultCacheDuration: 1h\n", name, registry)
	}
	require.NoError(s, os.WriteFile(config, []byte(text), 0o600))
	return []string{"--image-credential-provider-config", config, "--image-credential-provider-bin-dir", bin}
}

// An image of a private registry is pulled with the credentials of a plug-in, although another plug-in
// fails. No credentials are in the log, in events or in statuses.
func TestCredentialProviderPlugIns(t *testing.T) {
	const password = "hunter2-hunter2"
	c := containerd.Get(t)
	registry := containerdtest.StartRegistry(t, c, containerdtest.Image{Name: "team/app:1", Cmd: []string{"sleep", "1000"}, Files: map[string]string{"/own": t.Name()}})
	registry.Behave(containerdtest.Behaviour{Username: "robot", Password: password})
	s := newStation(t, on(c.Endpoint(), c))
	s.write("app.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: %q}]
`, registry.Ref("team/app:1")))
	s.start(s.plugIns(registry.Host, "robot", password)...)
	pod := s.waitPhase("app-n", v1.PodRunning)
	require.NotContains(t, fmt.Sprint(pod), password)
	require.NotEmpty(t, s.log.about("credential provider broken for image", "exit status 1"))
	require.NotContains(t, s.log.String(), password)
	_, metrics := ask(t, fmt.Sprintf("http://127.0.0.1:%d/metrics", s.port))
	require.Contains(t, metrics, `kubelet_credential_provider_plugin_duration_count{plugin_name="ours"} 1`)
	require.Contains(t, metrics, `kubelet_credential_provider_plugin_errors_total{plugin_name="broken"} 1`)
	s.remove("app.yaml")
	s.eventually("nothing is left", func() bool { return len(s.leftovers(c)) == 0 })
}

func TestCredentialProviderFlags(t *testing.T) {
	s := newStation(t, backends["process"])
	given := s.plugIns("registry.example", "robot", "secret")
	parse := func(args ...string) (flags, error) {
		return parseFlags(append([]string{s.manifests, "--container-runtime-endpoint", "unix:///c"}, args...))
	}
	f, err := parse(given...)
	require.NoError(t, err)
	keyring, err := f.plugins.keyring(newMetrics("n"), zap.NewNop())
	require.NoError(t, err)
	auths, err := keyring(t.Context(), nil, "registry.example/app")
	require.NoError(t, err)
	require.Equal(t, []runtime.ImageAuth{{Username: "robot", Password: "secret"}}, auths)
	_, err = parse(given[:2]...)
	require.ErrorContains(t, err, "give both of them")
	_, err = parse(append(given, "--container-runtime-endpoint", "process")...)
	require.ErrorContains(t, err, "pulls no images")
	require.NoError(t, os.Remove(filepath.Join(s.dir, "bin", "ours")))
	_, err = f.plugins.keyring(newMetrics("n"), zap.NewNop())
	require.ErrorContains(t, err, "--image-credential-provider-bin-dir")
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "plug-ins.yaml"), []byte("kind: x"), 0o600))
	_, err = f.plugins.keyring(newMetrics("n"), zap.NewNop())
	require.ErrorContains(t, err, "--image-credential-provider-config")
}
