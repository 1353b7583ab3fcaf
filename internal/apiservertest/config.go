// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"crypto/rand"
	"fmt"

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
		UserName: nodeUser(node),
		Groups:   nodeGroups(),
	}
	return config
}

func nodeUser(node string) string { return "system:node:" + node }
func nodeGroups() []string        { return []string{"system:nodes", "system:authenticated"} }

// Kubeconfig is the path of a file for kubectl and for flags named --kubeconfig,
// with what Config has.
func (s *Server) Kubeconfig() string { return s.folder.file("kubeconfig") }

// NodeKubeconfig writes a file with what NodeConfig has and returns its path.
func (s *Server) NodeKubeconfig(node string) (string, error) {
	user := s.user()
	user.Impersonate, user.ImpersonateGroups = nodeUser(node), nodeGroups()
	file := s.folder.file("kubeconfig-" + node)
	return file, writeKubeconfig(file, s.URL, s.identity.certPEM, user)
}

func (s *Server) user() *clientcmdapi.AuthInfo { return &clientcmdapi.AuthInfo{Token: s.token} }

// writeKubeconfig writes a file with one context.
func writeKubeconfig(file, url string, authority []byte, user *clientcmdapi.AuthInfo) error {
	const name = "keelson-test"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: authority}
	config.AuthInfos[name] = user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, file)
}
