// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-dev/keelson/internal/testport"
)

// kubeadmNode is the layout of a node below a folder, as kubeadm join (1.36) leaves it.
type kubeadmNode struct {
	bootstrapped
	root    string // in place of /
	healthz string // URL
}

// newKubeadmNode writes the files of kubeadm join. The node's containers are those of containerd.
func newKubeadmNode(t *testing.T, a authority) *kubeadmNode {
	t.Helper()
	k := &kubeadmNode{bootstrapped: newBootstrapped(t, a), root: t.TempDir()}
	port := testport.Free(t)
	k.healthz = fmt.Sprintf("http://127.0.0.1:%d/healthz", port)
	config, err := os.ReadFile("nodeconfig/testdata/kubeadm.yaml")
	require.NoError(t, err)
	text := string(config)
	for old, by := range map[string]string{
		"/etc/kubernetes":                  filepath.Join(k.root, "etc/kubernetes"),
		`containerRuntimeEndpoint: ""`:     "containerRuntimeEndpoint: " + containerd.Get(t).Endpoint(),
		"healthzPort: 10248":               fmt.Sprintf("healthzPort: %d", port),
		"/run/systemd/resolve/resolv.conf": "/etc/resolv.conf",
	} {
		require.Contains(t, text, old)
		text = strings.ReplaceAll(text, old, by)
	}
	bootstrap, err := os.ReadFile(k.bootstrap)
	require.NoError(t, err)
	authority, err := os.ReadFile(a.file)
	require.NoError(t, err)
	for path, content := range map[string]string{
		"var/lib/kubelet/config.yaml":       text,
		"var/lib/kubelet/kubeadm-flags.env": "KUBELET_KUBEADM_ARGS=\"--hostname-override=n --register-with-taints=example.com/new:NoSchedule\"\n",
		// What an administrator adds. Folders and the port are only those of the test.
		"etc/kubernetes/kubelet.conf.d/10.conf": fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
podLogsDir: %s
port: %d
imageGCHighThresholdPercent: 100
nodeLeaseDurationSeconds: 20
nodeStatusMaxImages: 0
podsPerCore: 3
providerID: cloud:///zone/n
`, filepath.Join(k.root, "var/log/pods"), testport.Free(t)),
		"etc/kubernetes/manifests/static.yaml": `apiVersion: v1
kind: Pod
metadata: {name: static, namespace: kube-system}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "localhost/busybox:1", command: [sleep, "1000"]}]
`,
		"etc/kubernetes/bootstrap-kubelet.conf": string(bootstrap),
		"etc/kubernetes/pki/ca.crt":             string(authority),
	} {
		path = filepath.Join(k.root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return k
}

func (k *kubeadmNode) path(name string) string { return filepath.Join(k.root, name) }

// start runs the agent as the unit of kubeadm runs the kubelet (10-kubeadm.conf).
func (k *kubeadmNode) start() {
	k.Helper()
	env, err := os.ReadFile(k.path("var/lib/kubelet/kubeadm-flags.env"))
	require.NoError(k, err)
	_, args, ok := strings.Cut(strings.TrimSpace(string(env)), "=")
	require.True(k, ok)
	args, err = strconv.Unquote(args)
	require.NoError(k, err)
	extra := "--root-dir=" + k.path("var/lib/kubelet") + " --config-dir=" + k.path("etc/kubernetes/kubelet.conf.d") + " --keep-pods=false"
	k.agent = exec.Command(os.Args[0], append([]string{
		"--bootstrap-kubeconfig=" + k.path("etc/kubernetes/bootstrap-kubelet.conf"), "--kubeconfig=" + k.path("etc/kubernetes/kubelet.conf"),
		"--config=" + k.path("var/lib/kubelet/config.yaml"),
	}, strings.Fields(args+" "+extra)...)...)
	k.agent.Env = append(os.Environ(), asAgent+"=1")
	if k.log == nil {
		k.log = &tail{}
	}
	k.agent.Stderr = k.log
	require.NoError(k, k.agent.Start())
	k.eventually("the kubelet is healthy, for which kubeadm waits", func() bool {
		code, _ := ask(k.T, k.healthz)
		return code == http.StatusOK
	})
}

// waitReady waits for a heartbeat after began that says that the node is ready.
func (c *clustered) waitReady(name string, began time.Time) (node *v1.Node) {
	c.Helper()
	c.eventually("the node is ready", func() bool {
		var err error
		if node, err = c.core.Nodes().Get(c.Context(), name, metav1.GetOptions{}); err != nil {
			return false
		}
		return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
			return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue && !c.LastHeartbeatTime.Before(&metav1.Time{Time: began.Truncate(time.Second)})
		})
	})
	return node
}

// A node joins with the files that kubeadm join leaves, as a kubelet does: healthy before it has a
// certificate, then registered with a certificate of its own. A restart needs no bootstrap kubeconfig.
func TestANodeOfKubeadmJoins(t *testing.T) {
	a := newAuthority(t)
	k := newKubeadmNode(t, a)
	k.start()
	a.approve(k.clustered, "system:bootstrap:abcdef", certificatesv1.KubeAPIServerClientKubeletSignerName)
	pem := k.path("var/lib/kubelet/pki/kubelet-client-current.pem")
	k.eventually("the node has a certificate, for which kubeadm waits", func() bool {
		_, err := tls.LoadX509KeyPair(pem, pem)
		return err == nil
	})
	config, err := clientcmd.LoadFromFile(k.path("etc/kubernetes/kubelet.conf"))
	require.NoError(t, err)
	require.Equal(t, pem, config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].ClientCertificate)

	node := k.waitReady("n", time.Time{})
	require.Equal(t, "cloud:///zone/n", node.Spec.ProviderID)
	require.Contains(t, node.Spec.Taints, v1.Taint{Key: "example.com/new", Effect: v1.TaintEffectNoSchedule})
	require.EqualValues(t, 3*goruntime.NumCPU(), node.Status.Capacity.Pods().Value())
	require.Empty(t, node.Status.Images)
	require.True(t, strings.HasPrefix(node.Status.NodeInfo.KubeletVersion, "v1.36."))
	leases, err := coordination.NewForConfig(k.server.Config())
	require.NoError(t, err)
	k.eventually("the node has a lease", func() bool {
		lease, err := leases.Leases(v1.NamespaceNodeLease).Get(t.Context(), "n", metav1.GetOptions{})
		return err == nil && *lease.Spec.LeaseDurationSeconds == 20
	})
	k.eventually("the static pod runs, and is told", func() bool {
		pod, err := k.core.Pods("kube-system").Get(t.Context(), "static-n", metav1.GetOptions{})
		return err == nil && running(pod)
	})
	logs, err := filepath.Glob(k.path("var/log/pods/kube-system_static-n_*/main/0.log"))
	require.NoError(t, err)
	require.Len(t, logs, 1)

	require.NoError(t, os.Remove(k.path("etc/kubernetes/bootstrap-kubelet.conf")))
	k.interrupt()
	began := time.Now()
	k.start()
	k.waitReady("n", began)
}
