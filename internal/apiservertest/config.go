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

// Config returns a new client configuration with all permissions (group system:masters) and without
// client-go's rate limit. The caller may change the Config. The Config remains valid after a
// restart of the server.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:            s.URL,
		BearerToken:     s.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.identity.certPEM},
		QPS:             -1,
	}
}

// NodeConfig returns a Config with the permissions of the named node. The Node authorizer and the
// NodeRestriction admission plugin apply, as for a kubelet.
func (s *Server) NodeConfig(node string) *rest.Config {
	config := s.Config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:node:" + node,
		Groups:   []string{"system:nodes", "system:authenticated"},
	}
	return config
}

// Kubeconfig returns the path of a file with the content of Config, for kubectl and for flags named
// --kubeconfig.
func (s *Server) Kubeconfig() string { return s.folder.file("kubeconfig") }

// Authority returns the path of the certificate that signs the server's certificate, and the client
// certificate that the server presents to nodes (user keelson-test, group system:masters).
func (s *Server) Authority() string { return s.folder.file("tls.crt") }

// WriteKubeconfig writes config to a kubeconfig file and returns its path. config comes from Config
// or NodeConfig, possibly with the Host of a proxy. The file is removed with the server.
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
