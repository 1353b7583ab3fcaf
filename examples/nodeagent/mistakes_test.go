// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// A manifest that needs a flag of this program is refused with the name of the flag.
func TestManifestErrorsNameTheFlagThatHelps(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: main, image: i}]\n"
	tests := []struct {
		name, add string
		flags     flags
		want      string
	}{
		{"ConfigMap", "  volumes:\n  - {name: c, configMap: {name: c}}\n", flags{}, "7:5: spec.volumes[0]: static pods may not reference " +
			"configmaps (via configmap volumes): put their manifests into a folder and start with --objects-path FOLDER"},
		{"CSI", "  volumes:\n  - {name: c, csi: {driver: d}}\n", flags{}, "7:5: spec.volumes[0]: static pods may not reference " +
			"csidrivers (via CSI volumes): start with --csi-sockets DRIVER=unix:///PATH"},
		{"CSI beside", "  volumes:\n  - {name: c, csi: {driver: d}}\n  - {name: s, secret: {secretName: s}}\n", flags{csiSockets: map[string]string{"d": "/d"}},
			"8:5: spec.volumes[1]: static pods may not reference secrets (via secret volumes): put their manifests into a folder " +
				"and start with --objects-path FOLDER"},
		{"claim", "  volumes:\n  - {name: c, persistentVolumeClaim: {claimName: c}}\n", flags{}, "7:5: spec.volumes[0]: static pods may not " +
			"reference persistentvolumeclaims: create the pod on an API server, and start with --kubeconfig"},
		{"ConfigMap with objects", "  volumes:\n  - {name: c, configMap: {name: c}}\n", flags{objects: "/o"}, ""},
		{"CSI with a socket", "  volumes:\n  - {name: c, csi: {driver: d}}\n", flags{csiSockets: map[string]string{"d": "/d"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			decoder := &manifest.Decoder{NodeName: "n", Strict: true, Policy: staticPolicy(tt.flags)}
			_, err := decoder.Pod([]byte(pod+tt.add), manifest.Origin{Kind: manifest.OriginFile, Location: "/m/web.yaml"})
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
		})
	}
}

// The error of an invalid manifest starts with file:line:column, in the log and on the screen.
func TestABadManifestIsNamedWithItsLine(t *testing.T) {
	s := newStation(t, backends["process"])
	s.write("web.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\ncontainers:\n- {name: main, image: i}\n")
	s.start()
	const want = "/web.yaml:6:1: containers: unknown field here; it belongs to spec: check the indentation"
	s.eventually("the log names the line", func() bool { return strings.Contains(s.log.String(), want) })
	s.write("net.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: net}\nspec:\n  hostNetwork: false\n  containers: [{name: main, image: i}]\n")
	s.eventually("a field that the backend cannot honour is refused", func() bool {
		return strings.Contains(s.log.String(), "/net.yaml:5:16: spec.hostNetwork: this node has no pod networks")
	})

	shown := &problems{manifests: s.manifests}
	zap.New(shown).Warn(manifestNotUsed, zap.String("file", s.manifests+"/web.yaml"), zap.String("error", s.manifests+want))
	require.Contains(t, shown.lines()[0], "manifest not used: web.yaml:6:1: containers: unknown field")
}
