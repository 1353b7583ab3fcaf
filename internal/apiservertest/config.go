// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokensFile is the text of a static token file with one administrator.
func tokensFile(token string) []byte {
	return fmt.Appendf(nil, "%s,admin,admin,%q\n", token, "system:masters")
}

func newToken() string { return rand.Text() }

// Config returns a new configuration of a client of the server, which may do
// everything (group system:masters) and is not slowed down by client-go. The
// caller may change it. It stays good when the server is restarted.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:            s.URL,
		BearerToken:     s.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.identity.certPEM},
		QPS:             -1,
	}
}

// NodeConfig is Config for what the node of this name may do: the Node
// authorizer and the NodeRestriction admission plugin decide, as they do for a
// kubelet.
func (s *Server) NodeConfig(node string) *rest.Config {
	config := s.Config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:node:" + node,
		Groups:   []string{"system:nodes", "system:authenticated"},
	}
	return config
}

// Kubeconfig is the path of a file for kubectl and for flags named --kubeconfig,
// with what Config has.
func (s *Server) Kubeconfig() string { return s.folder.file("kubeconfig") }

// WriteKubeconfig writes a file like Kubeconfig with what config has, which is one
// of Config or NodeConfig, perhaps with the Host of a proxy, and returns its
// path. The file goes with the server.
func (s *Server) WriteKubeconfig(config *rest.Config) (string, error) {
	f, err := os.CreateTemp(s.folder.dir, "kubeconfig-")
	if err != nil {
		return "", err
	}
	return f.Name(), errors.Join(f.Close(), writeKubeconfig(f.Name(), config))
}

// writeKubeconfig writes a file with one context.
func writeKubeconfig(file string, config *rest.Config) error {
	const name = "keelson-test"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token:             config.BearerToken,
		Impersonate:       config.Impersonate.UserName,
		ImpersonateGroups: config.Impersonate.Groups,
	}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	return clientcmd.WriteToFile(*out, file)
}
