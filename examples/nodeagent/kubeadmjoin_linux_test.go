// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/apiservertest"
)

// kubeadm runs kubeadm join with its own folders, and the agent under the name kubelet with the command
// line of kubeadm's unit, as systemd would: again and again, until there is a configuration file. The
// folders are those of a mount namespace, and vanish with it.
const kubeadm = `set -eu
mount --make-rprivate /
mkdir -p /etc/kubernetes /var/lib/kubelet /var/log/pods
for folder in /etc/kubernetes /var/lib/kubelet /var/log/pods; do mount -t tmpfs none $folder; done
mkdir -p /etc/kubernetes/manifests
kubelet --version
(
	until [ -e /var/lib/kubelet/config.yaml ]; do sleep 0.2; done
	. /var/lib/kubelet/kubeadm-flags.env
	exec kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS --image-gc-high-threshold=100 2> "$LOG"
) &
agent=$!
trap 'kill $agent; wait' EXIT
timeout 300 kubeadm join --discovery-file "$DISCOVERY" --tls-bootstrap-token abcdef.0123456789abcdef --node-name n --cri-socket "$ENDPOINT" --ignore-preflight-errors=all
[ ! -e /etc/kubernetes/bootstrap-kubelet.conf ]
read -r _ || true # until the test has seen the node
`

// kubeadm join finishes on a node with this agent in place of the kubelet.
func TestKubeadmJoin(t *testing.T) {
	program := filepath.Join(os.Getenv(apiservertest.DirVariable), "kubeadm")
	if _, err := os.Stat(program); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and kubeadm: KEELSON_APISERVER_DIR=$(WITH=kubeadm e2e/kubernetes.sh)")
	}
	endpoint := containerd.Get(t).Endpoint()
	a := newAuthority(t)
	c := newBootstrapped(t, a)
	kubelet, err := os.ReadFile("nodeconfig/testdata/kubeadm.yaml")
	require.NoError(t, err)
	kubelet = bytes.ReplaceAll(kubelet, []byte("/run/systemd/resolve/resolv.conf"), []byte("/etc/resolv.conf"))
	for name, data := range map[string]map[string]string{
		"kubelet-config": {"kubelet": string(kubelet)},
		"kubeadm-config": {"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.3\nnetworking: {dnsDomain: cluster.local, serviceSubnet: 10.96.0.0/12}\n"},
	} {
		_, err := c.core.ConfigMaps("kube-system").Create(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	c.letBootstrappersRead()
	discovery, err := c.server.WriteKubeconfig(&rest.Config{Host: c.server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: c.server.Config().CAData}})
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "kubelet"), fmt.Appendf(nil, "#!/bin/bash\n%s=1 exec -a kubelet %s \"$@\"\n", asAgent, os.Args[0]), 0o755))
	require.NoError(t, os.Symlink(program, filepath.Join(bin, "kubeadm")))

	log := filepath.Join(bin, "log")
	var said bytes.Buffer
	join := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", kubeadm)
	join.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LOG="+log, "DISCOVERY="+discovery, "ENDPOINT="+endpoint)
	join.Stdout, join.Stderr = &said, &said
	seen, err := join.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, join.Start())
	defer func() {
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("kubeadm:\n%s\nthe agent:\n%s", said.String(), text)
		}
	}()
	a.approve(c.clustered, "system:bootstrap:abcdef", certificatesv1.KubeAPIServerClientKubeletSignerName)
	c.waitReady("n", time.Time{})
	require.NoError(t, seen.Close())
	require.NoError(t, join.Wait())
	require.Contains(t, said.String(), "The kubelet is healthy after")
	require.Contains(t, said.String(), "This node has joined the cluster")
}

// letBootstrappersRead gives the permissions of kubeadm init to the users of bootstrap tokens.
func (b *bootstrapped) letBootstrappersRead() {
	b.Helper()
	rbac, err := rbacclient.NewForConfig(b.server.Config())
	require.NoError(b, err)
	_, err = rbac.ClusterRoles().Create(b.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", "nodes"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:bootstrappers"}, {APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:nodes"}}
	_, err = rbac.ClusterRoleBindings().Create(b.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kubeadm"}, Subjects: subjects,
	}, metav1.CreateOptions{})
	require.NoError(b, err)
}
