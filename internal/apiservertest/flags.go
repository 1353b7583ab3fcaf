// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"fmt"
	"slices"
	"strings"
)

// etcdFlags returns the flags of etcd. The flags trade durability for speed, because the data need
// not survive a crash of the machine.
func etcdFlags(f folder, clients port) []string {
	url := "http://" + clients.String()
	return []string{
		"--data-dir=" + f.file("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url, "--socket-reuse-port",
		"--listen-peer-urls=http://127.0.0.1:0", // etcd has no peers
		"--quota-backend-bytes=4294967296",
	}
}

// apiserverFlags returns the flags of kube-apiserver, with more at the end. A flag in more replaces
// the flag of that name: kube-apiserver would join two lists.
func apiserverFlags(f folder, secure, etcd port, more []string) []string {
	replaced := map[string]bool{}
	for _, flag := range more {
		name, _, _ := strings.Cut(flag, "=")
		replaced[name] = true
	}
	own := []string{
		"--etcd-servers=http://" + etcd.String(),
		"--etcd-compaction-interval=0", // only a test compacts
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", secure.number), "--permit-port-sharing",
		// There is no service to serve, and on a machine without a network no
		// address to advertise.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--cert-dir=" + f.dir, "--tls-cert-file=" + f.file("tls.crt"), "--tls-private-key-file=" + f.file("tls.key"),
		"--service-account-issuer=https://keelson.invalid",
		"--service-account-key-file=" + f.file("tls.key"), "--service-account-signing-key-file=" + f.file("tls.key"),
		"--kubelet-client-certificate=" + f.file("tls.crt"), "--kubelet-client-key=" + f.file("tls.key"),
		// Servers of further APIs trust the API server by its client certificate.
		"--requestheader-client-ca-file=" + f.file("tls.crt"), "--proxy-client-cert-file=" + f.file("tls.crt"), "--proxy-client-key-file=" + f.file("tls.key"),
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--token-auth-file=" + f.file("tokens.csv"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--disable-admission-plugins=ServiceAccount", // without controllers there are none
		"--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged",
	}
	own = slices.DeleteFunc(own, func(flag string) bool {
		name, _, _ := strings.Cut(flag, "=")
		return replaced[name]
	})
	return append(own, more...)
}

// controllerFlags returns the flags of the controllers by program. The controllers act as
// administrators and serve nothing.
func controllerFlags(f folder, manager []string) map[string][]string {
	shared := []string{"--kubeconfig=" + f.file("kubeconfig"), "--leader-elect=false", "--secure-port=0"}
	return map[string][]string{
		"kube-scheduler": append(slices.Clone(shared), "--kube-api-qps=10000", "--kube-api-burst=10000"), // the client's default of 50 pods in a second is for clusters
		"kube-controller-manager": slices.Concat(shared, manager, []string{
			"--use-service-account-credentials", "--service-account-private-key-file=" + f.file("tls.key"),
			"--root-ca-file=" + f.file("tls.crt"), "--cluster-signing-cert-file=" + f.file("tls.crt"), "--cluster-signing-key-file=" + f.file("tls.key")}),
	}
}
