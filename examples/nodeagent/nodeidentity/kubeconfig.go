// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// kubeconfig is the content of a file for its current context.
type kubeconfig struct {
	config   *rest.Config // without the client certificate
	cluster  *clientcmdapi.Cluster
	certPath string           // path of the client certificate, if the certificate is in a file
	pair     *tls.Certificate // the client certificate; nil if missing or unreadable
	pairErr  error            // reason for an unreadable certificate
}

// readKubeconfig reads a file. An unreadable client certificate is no error, because the
// certificate may not have been issued yet.
func readKubeconfig(path string) (*kubeconfig, error) {
	raw, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := clientcmd.ResolveLocalPaths(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	context := raw.Contexts[raw.CurrentContext]
	if context == nil || raw.Clusters[context.Cluster] == nil || raw.Clusters[context.Cluster].Server == "" {
		return nil, fmt.Errorf("%s: the current context has no cluster with a server", path)
	}
	k := &kubeconfig{cluster: raw.Clusters[context.Cluster]}
	if user := raw.AuthInfos[context.AuthInfo]; user != nil {
		k.readPair(user)
		user.ClientCertificate, user.ClientCertificateData, user.ClientKey, user.ClientKeyData = "", nil, "", nil
	}
	k.config, err = clientcmd.NewDefaultClientConfig(*raw, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// readPair sets the client certificate of a user.
func (k *kubeconfig) readPair(user *clientcmdapi.AuthInfo) {
	cert, key := user.ClientCertificateData, user.ClientKeyData
	if len(cert) == 0 {
		if k.certPath = user.ClientCertificate; k.certPath == "" {
			return
		}
		cert, k.pairErr = os.ReadFile(k.certPath)
	}
	if len(key) == 0 && k.pairErr == nil {
		key, k.pairErr = os.ReadFile(user.ClientKey)
	}
	if k.pairErr != nil {
		return
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		k.pairErr = err
		return
	}
	k.pair = &pair
}

// isOfNode reports whether the client certificate is the node's own. A Client keeps such a
// certificate valid.
func (k *kubeconfig) isOfNode(node string, store *Store) bool {
	if k.certPath == store.CurrentPath() {
		return true
	}
	return k.pair != nil && ClientTemplate(node).Missing(k.pair.Leaf) == ""
}

// isUsable reports whether the API server may accept the credentials.
func (k *kubeconfig) isUsable(now time.Time) bool {
	return k.pairErr == nil && (k.pair == nil || now.Before(k.pair.Leaf.NotAfter))
}

// writeKubeconfig writes a file with the cluster and the current pair of the store, with the kubelet's
// names.
func writeKubeconfig(path string, cluster *clientcmdapi.Cluster, store *Store) error {
	out := clientcmdapi.NewConfig()
	out.Clusters["default-cluster"] = cluster
	out.AuthInfos["default-auth"] = &clientcmdapi.AuthInfo{ClientCertificate: store.CurrentPath(), ClientKey: store.CurrentPath()}
	out.Contexts["default-context"] = &clientcmdapi.Context{Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}
	out.CurrentContext = "default-context"
	data, err := clientcmd.Write(*out)
	if err == nil {
		err = atomicfile.WritePath(path, data)
	}
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}

// errNoBootstrap names the remedy for a node without credentials.
var errNoBootstrap = errors.New("there is no usable client certificate, and no bootstrap kubeconfig to request one with: give one, with a new token")
