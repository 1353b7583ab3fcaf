// SPDX-License-Identifier: Apache-2.0

package credentialplugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/keelson-dev/keelson/runtime/credentialplugin"
)

func Example() {
	dir, err := os.MkdirTemp("", "plug-ins")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program := `#!/bin/sh
echo '{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
	"cacheKeyType": "Registry", "auth": {"*.registry.example": {"username": "robot", "password": "secret"}}}'
`
	if err := os.WriteFile(filepath.Join(dir, "our-registry"), []byte(program), 0o755); err != nil {
		panic(err)
	}
	plugins, err := credentialplugin.New(credentialplugin.Options{Dir: dir, Providers: []credentialplugin.Provider{{
		Name: "our-registry", APIVersion: "credentialprovider.kubelet.k8s.io/v1",
		MatchImages: []string{"*.registry.example"}, DefaultCacheDuration: time.Hour,
	}}})
	if err != nil {
		panic(err)
	}
	auths, err := plugins.Find(context.Background(), nil, "eu.registry.example/app:1")
	fmt.Println(len(auths), auths[0].Username, err)
	// Output: 1 robot <nil>
}
