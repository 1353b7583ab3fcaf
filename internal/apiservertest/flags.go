// SPDX-License-Identifier: Apache-2.0

package apiservertest

import "fmt"

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

// apiserverFlags returns the flags of kube-apiserver, with more at the end.
func apiserverFlags(f folder, secure, etcd port, more []string) []string {
	return append([]string{
		"--etcd-servers=http://" + etcd.String(),
		"--etcd-compaction-interval=0", // only a test compacts
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", secure.number), "--permit-port-sharing",
		// There is no service to serve, and on a machine without a network no
		// address to advertise.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--cert-dir=" + f.dir, "--tls-cert-file=" + f.file("tls.crt"), "--tls-private-key-file=" + f.file("tls.key"),
		"--service-account-issuer=https://keelson.invalid",
		"--service-account-key-file=" + f.file("tls.key"), "--service-account-signing-key-file=" + f.file("tls.key"),
		"--token-auth-file=" + f.file("tokens.csv"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--disable-admission-plugins=ServiceAccount", // no controller makes any
		"--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged",
	}, more...)
}
