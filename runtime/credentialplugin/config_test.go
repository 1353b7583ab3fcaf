// SPDX-License-Identifier: Apache-2.0

package credentialplugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/credentialplugin"
)

const head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

const ecr = `- name: ecr-credential-provider
  matchImages: ["*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn"]
  defaultCacheDuration: "12h"
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get-credentials]
  env: [{name: AWS_PROFILE, value: default}]
`

const gcr = `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "CredentialProviderConfig", "providers": [{
	"name": "gcr", "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1", "matchImages": ["gcr.io"], "defaultCacheDuration": "1m"}]}`

func read(t *testing.T, name, text string) ([]credentialplugin.Provider, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return credentialplugin.Read(path)
}

func TestReadAFile(t *testing.T) {
	all, err := read(t, "config.yaml", head+ecr)
	require.NoError(t, err)
	require.Equal(t, []credentialplugin.Provider{{
		Name: "ecr-credential-provider", APIVersion: "credentialprovider.kubelet.k8s.io/v1",
		MatchImages:          []string{"*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn"},
		DefaultCacheDuration: 12 * time.Hour, Args: []string{"get-credentials"}, Env: []string{"AWS_PROFILE=default"},
	}}, all)
}

func TestReadAFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"20.json": gcr, "10.yaml": head + ecr, "README": "no configuration", "30.yml": head + strings.ReplaceAll(ecr, "ecr-", "third-")} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	all, err := credentialplugin.Read(dir)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, "ecr-credential-provider", all[0].Name)
	require.Equal(t, "gcr", all[1].Name)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "40.json"), []byte(gcr), 0o600))
	_, err = credentialplugin.Read(dir)
	require.ErrorContains(t, err, `provider "gcr" is there twice`)
	_, err = credentialplugin.Read(t.TempDir())
	require.ErrorContains(t, err, "no files")
	_, err = credentialplugin.Read(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A mistake in the configuration is an error that names it, without the values of variables.
func TestConfigurationsThatAreRefused(t *testing.T) {
	change := func(old, by string) string {
		require.Contains(t, head+ecr, old)
		return strings.Replace(head+ecr, old, by, 1)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"empty":                {"", "EOF"},
		"no plug-ins":          {strings.Replace(head, "providers:", "providers: []", 1), "providers: at least one"},
		"a field with a typo":  {change("matchImages", "matchImage"), "matchImage"},
		"another kind":         {change("CredentialProviderConfig", "KubeletConfiguration"), "want a CredentialProviderConfig"},
		"another version":      {change("kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v2"), "want a CredentialProviderConfig"},
		"two documents":        {head + ecr + "---\n" + head, "one document"},
		"no name":              {change("name: ecr-credential-provider", "name: ''"), "name of a program"},
		"a path for a name":    {change("ecr-credential-provider", "bin/ecr"), "name of a program"},
		"no images":            {change(`["*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn"]`, "[]"), "matchImages"},
		"an image with scheme": {change("\"*.dkr.ecr.*.amazonaws.com\",", "\"https://a\","), "matchImages"},
		"no duration":          {change(`  defaultCacheDuration: "12h"`+"\n", ""), "defaultCacheDuration is required"},
		"a day":                {change("12h", "1d"), "defaultCacheDuration: want a duration"},
		"less than none":       {change("12h", "-1h"), "defaultCacheDuration"},
		"no version":           {change("  apiVersion: credentialprovider.kubelet.k8s.io/v1\n", ""), "apiVersion"},
		"token attributes":     {head + ecr + "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true}\n", "tokenAttributes: this program gives"},
		"a variable without =": {change("name: AWS_PROFILE, value: default", "name: 'A=hunter2', value: b"), "env"},
		"a list for a secret":  {change("value: default", "value: [hunter2]"), "line"},
		"a secret for a list":  {change("[{name: AWS_PROFILE, value: default}]", "hunter2"), "line"},
		"too long":             {head + ecr + strings.Repeat("#", 1<<20), "at most"},
	} {
		_, err := read(t, "config.yaml", tc.text)
		if assert.ErrorContains(t, err, tc.want, name) && !strings.Contains(name, "without =") {
			assert.NotContains(t, err.Error(), "hunter2", name)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(head + ecr))
	f.Add([]byte(gcr))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		all, err := credentialplugin.Read(path)
		if err != nil {
			return
		}
		_, err = credentialplugin.New(credentialplugin.Options{Dir: "/bin", Providers: all})
		require.NoError(t, err, "what Read accepts, New accepts")
	})
}
