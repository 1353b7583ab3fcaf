// SPDX-License-Identifier: Apache-2.0

package pullsecrets

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/registry"
	"github.com/keelson-dev/keelson/runtime"
)

// Reasons for an unusable secret. No error contains the secret's content.
var (
	// errType: the secret has another type.
	errType = errors.New("not a secret with registry credentials")
	// errMalformed: the content of the secret does not fit its type.
	errMalformed = errors.New("the credentials cannot be read")
)

// entry has the credentials of a secret for a registry or a part of a registry.
type entry struct {
	place registry.Place
	auth  runtime.ImageAuth
}

// equal reports whether auth has the same credentials, of any Secret.
func (e *entry) equal(auth runtime.ImageAuth) bool {
	auth.Secret = e.auth.Secret
	return auth == e.auth
}

// document is docker's JSON object for a registry.
type document struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// read returns the entries of a secret. Invalid entries are omitted. If all entries are invalid,
// read returns an error.
func read(secret *v1.Secret) ([]entry, error) {
	switch secret.Type {
	case v1.SecretTypeDockerConfigJson:
		return readConfig(secret.Data[v1.DockerConfigJsonKey])
	case v1.SecretTypeDockercfg:
		var registries map[string]json.RawMessage
		if json.Unmarshal(secret.Data[v1.DockerConfigKey], &registries) != nil {
			return nil, errMalformed // the error of json may quote content
		}
		return entriesOf(registries)
	}
	return nil, fmt.Errorf("%w, but of type %q", errType, secret.Type)
}

// readConfig returns the entries of a config.json. Credential helpers named in the file are not
// run.
func readConfig(data []byte) ([]entry, error) {
	var config struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if json.Unmarshal(data, &config) != nil {
		return nil, errMalformed
	}
	return entriesOf(config.Auths)
}

func entriesOf(registries map[string]json.RawMessage) (out []entry, err error) {
	for _, name := range slices.Sorted(maps.Keys(registries)) {
		p, ok := registry.Parse(name)
		if !ok {
			continue
		}
		if auth, ok := readAuth(registries[name]); ok {
			out = append(out, entry{p, auth})
		}
	}
	if len(out) == 0 && len(registries) > 0 {
		return nil, errMalformed
	}
	return out, nil
}

// readAuth returns the credentials of an entry. User and password in auth have precedence.
func readAuth(data json.RawMessage) (auth runtime.ImageAuth, ok bool) {
	var d document
	if json.Unmarshal(data, &d) != nil {
		return auth, false
	}
	if d.Auth != "" {
		if d.Username, d.Password, ok = decodeAuth(d.Auth); !ok {
			return auth, false
		}
	}
	auth = runtime.ImageAuth{Username: d.Username, Password: d.Password, IdentityToken: d.IdentityToken, RegistryToken: d.RegistryToken}
	return auth, auth != runtime.ImageAuth{}
}

// decodeAuth decodes the base64 of user:password, with or without padding.
func decodeAuth(text string) (user, password string, ok bool) {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(text), "="))
	if err != nil {
		return "", "", false
	}
	user, password, ok = strings.Cut(string(plain), ":")
	return user, strings.Trim(password, "\x00"), ok // docker pads the password with zero bytes
}
