// SPDX-License-Identifier: Apache-2.0

package nodeconfig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeconfig"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func parse(texts ...string) (nodeconfig.Config, error) {
	var files []nodeconfig.File
	for i, text := range texts {
		files = append(files, nodeconfig.File{Name: fmt.Sprintf("/etc/k/%d.yaml", i), Data: []byte(head + text)})
	}
	return nodeconfig.Parse(files)
}

// values returns the settings of fields that the files have, as "flag=value".
func values(c nodeconfig.Config) (all []string) {
	for _, s := range c.Settings {
		if text := s.Flag + "=" + s.Value; !defaults[text] {
			all = append(all, text)
		}
	}
	return all
}

// defaults are the settings of a file without fields: the kubelet's defaults, where the flags of the agent have others.
var defaults = map[string]bool{
	"address=0.0.0.0": true, "read-only-port=0": true, "container-runtime-endpoint=unix:///run/containerd/containerd.sock": true,
	"healthz-port=10248": true, "pod-logs-dir=/var/log/pods": true,
	"eviction-hard=memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%": true,
}

func TestAFileWithoutFields(t *testing.T) {
	c, err := parse("")
	require.NoError(t, err)
	require.Len(t, c.Settings, len(defaults))
	require.Empty(t, values(c))
	require.Empty(t, c.Notices)
}

func TestFieldsThatAreFlags(t *testing.T) {
	for text, want := range map[string]string{
		"staticPodPath: /etc/manifests":                      "pod-manifest-path=/etc/manifests",
		"staticPodPath: manifests":                           "pod-manifest-path=/etc/k/manifests",
		"staticPodURLHeader: {A: [b, c], D: [e]}":            "manifest-url-header=A:b,A:c,D:e",
		"port: 10251":                                        "port=10251",
		"evictionHard: {}":                                   "eviction-hard=",
		"evictionHard: {memory.available: 5%}":               "eviction-hard=memory.available<5%",
		"evictionMinimumReclaim: {imagefs.available: 2Gi}":   "eviction-minimum-reclaim=imagefs.available=2Gi",
		"readOnlyPort: 10255":                                "read-only-port=10255",
		"authentication: {anonymous: {enabled: false}}":      "anonymous-auth=false",
		"authentication: {x509: {clientCAFile: pki/ca.crt}}": "client-ca-file=/etc/k/pki/ca.crt",
		"clusterDNS: [10.96.0.10, fd00::a]":                  "cluster-dns=10.96.0.10,fd00::a",
		"imageMinimumGCAge: 3m":                              "minimum-image-ttl-duration=3m",
		"imageGCLowThresholdPercent: 0":                      "image-gc-low-threshold=0",
		"systemReserved: {memory: 1Gi, cpu: 100m}":           "system-reserved=cpu=100m,memory=1Gi",
		"registerWithTaints: [{key: a, value: b, effect: NoSchedule}, {key: c, effect: NoExecute}]": "register-with-taints=a=b:NoSchedule,c:NoExecute",
		"registerNode: false": "register-node=false",
		"shutdownGracePeriodByPodPriority: [{priority: -1, shutdownGracePeriodSeconds: 10}, {priority: 5, shutdownGracePeriodSeconds: 0}]": "shutdown-grace-period-by-pod-priority=-1=10,5=0",
	} {
		c, err := parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, []string{want}, values(c), text)
		assert.Empty(t, c.Notices, text)
	}
}

func TestFieldsThatHaveToHaveTheirDefault(t *testing.T) {
	for text, want := range map[string]string{
		"cpuManagerReconcilePeriod: 10s":       "",
		"cpuManagerReconcilePeriod: 10000ms":   "",
		"cpuManagerReconcilePeriod: 20s":       "/etc/k/0.yaml:3: cpuManagerReconcilePeriod: this agent supports only 10s: set it to that or remove it",
		"enableSystemLogQuery: false":          "",
		"tracing: {samplingRatePerMillion: 1}": "tracing.samplingRatePerMillion",
		"runOnce: false":                       "",
		"runOnce: true":                        "/etc/k/0.yaml:3: runOnce: this agent does not support the field: remove it",
		"qosReserved: {}":                      "",
		"qosReserved: {memory: 50%}":           "/etc/k/0.yaml:3: qosReserved: this agent does not support the field: remove it",
		"reservedMemory: []":                   "",
		"reservedMemory: [{numaNode: 0}]":      "reservedMemory",
		"podPidsLimit: null":                   "",
		"userNamespaces: {idsPerPod: 9}":       "idsPerPod",
	} {
		_, err := parse(text)
		if want == "" {
			assert.NoError(t, err, text)
		} else {
			assert.ErrorContains(t, err, want, text)
		}
	}
	_, err := parse("tracing: {endpoint: \"localhost:4317\"}\ncontainerLogMaxWorkers: 7\n")
	require.ErrorContains(t, err, "tracing.endpoint")
	require.ErrorContains(t, err, "containerLogMaxWorkers", "all errors are told")
}

func TestValuesOfAnotherKind(t *testing.T) {
	for text, want := range map[string]string{
		"port: x":                        "port: want a number",
		"port: \"10250\"":                "port: want a number",
		"clusterDomain: 1":               "clusterDomain: want a text",
		"registerNode: 1":                "registerNode: want true or false",
		"imageMinimumGCAge: 5":           "imageMinimumGCAge: want a duration",
		"clusterDNS: 10.0.0.1":           "clusterDNS: want a list",
		"clusterDNS: [\"1,2\"]":          "clusterDNS: want texts without commas",
		"systemReserved: [cpu]":          "systemReserved: want a mapping",
		"authentication: x":              "authentication.x509.clientCAFile: want a mapping",
		"registerWithTaints: [{key: a}]": "registerWithTaints: want taints",
		"port: 1\nport: 2":               "stands twice",
		"shutdownGracePeriodByPodPriority: [{priority: high}]": "shutdownGracePeriodByPodPriority: want numbers",
		"a: &a 1\nb: *a": "aliases",
	} {
		_, err := parse(text)
		assert.ErrorContains(t, err, want, text)
	}
	for _, text := range []string{"", "[]", "kind: Pod\napiVersion: v1\n", "\t", "x: " + strings.Repeat("[", 100) + strings.Repeat("]", 100)} {
		_, err := nodeconfig.Parse([]nodeconfig.File{{Name: "f", Data: []byte(text)}})
		assert.ErrorContains(t, err, "f:", text)
	}
}

func TestFieldsWithoutEffectAreNoticed(t *testing.T) {
	c, err := parse("syncFrequency: 1m\nfutureField: {a: 1}\nlogging: {verbosity: 3, format: text}\nfileCheckFrequency: 0s\n")
	require.NoError(t, err)
	require.Equal(t, []nodeconfig.Notice{
		{File: "/etc/k/0.yaml", Line: 3, Field: "syncFrequency"},
		{File: "/etc/k/0.yaml", Line: 5, Field: "logging"},
		{File: "/etc/k/0.yaml", Line: 4, Field: "futureField.a", Unknown: true},
	}, c.Notices)
}

func TestDropIns(t *testing.T) {
	c, err := parse("port: 1\nclusterDNS: [a, b]\nsystemReserved: {cpu: 1, memory: 1Gi}\nmaxPods: 7\nqosReserved: {a: b}\n",
		"clusterDNS: [c]\nsystemReserved: {memory: 2Gi}\nmaxPods: 0\nqosReserved: null\n", "port: 2\n")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"port=2", "cluster-dns=c", "system-reserved=cpu=1,memory=2Gi"}, values(c))

	_, err = nodeconfig.Parse([]nodeconfig.File{{Name: "a", Data: []byte(head)}, {Name: "b", Data: []byte("port: 1\n")}})
	require.ErrorContains(t, err, "b:1: unknown apiVersion/kind")
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("config.yaml", head)
	write("conf.d/20.conf", head+"port: 20\n")
	write("conf.d/10.conf", head+"port: 10\n")
	write("conf.d/15/a.conf", head+"port: 15\n")
	write("conf.d/30.yaml", head+"port: 30\n")
	files, err := nodeconfig.Read(filepath.Join(dir, "config.yaml"), filepath.Join(dir, "conf.d"))
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		name, err := filepath.Rel(dir, f.Name)
		require.NoError(t, err)
		names = append(names, name)
	}
	require.Equal(t, []string{"config.yaml", "conf.d/10.conf", "conf.d/15/a.conf", "conf.d/20.conf"}, names)
	c, err := nodeconfig.Parse(files)
	require.NoError(t, err)
	require.Equal(t, []string{"port=20"}, values(c))
	_, err = nodeconfig.Read(filepath.Join(dir, "none"), "")
	require.ErrorIs(t, err, os.ErrNotExist)
	write("large", strings.Repeat("#", 1<<20+1))
	_, err = nodeconfig.Read(filepath.Join(dir, "large"), "")
	require.ErrorContains(t, err, "bytes")
}

// The file of a node of kubeadm 1.36, which writes every field, most as zeros.
func TestAFileOfKubeadm(t *testing.T) {
	text, err := os.ReadFile("testdata/kubeadm.yaml")
	require.NoError(t, err)
	c, err := nodeconfig.Parse([]nodeconfig.File{{Name: "/var/lib/kubelet/config.yaml", Data: text}})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		"pod-manifest-path=/etc/kubernetes/manifests", "client-ca-file=/etc/kubernetes/pki/ca.crt", "authentication-token-webhook=true",
		"anonymous-auth=false", "authorization-mode=Webhook", "healthz-bind-address=127.0.0.1", "cluster-domain=cluster.local", "cluster-dns=10.96.0.10",
		"cgroup-driver=systemd", "resolv-conf=/run/systemd/resolve/resolv.conf", "rotate-certificates=true",
	}, values(c))
	for _, n := range c.Notices {
		require.False(t, n.Unknown, n.Field)
	}
}

func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/kubeadm.yaml")
	require.NoError(f, err)
	f.Add(text, []byte(head))
	f.Add([]byte(head+"port: 1\nsystemReserved: {a: b}\n"), []byte(head+"port: null\nsystemReserved: {a: null, c: d}\n"))
	f.Fuzz(func(t *testing.T, main, dropIn []byte) {
		files := []nodeconfig.File{{Name: "main", Data: main}, {Name: "drop-in", Data: dropIn}}
		c, err := nodeconfig.Parse(files)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		again, err := nodeconfig.Parse(append(files, files[1])) // a drop-in twice changes nothing
		require.NoError(t, err)
		require.Equal(t, c.Settings, again.Settings)
		for _, s := range c.Settings {
			require.NotEmpty(t, s.Value)
			require.NotContains(t, s.Flag, " ")
		}
	})
}
