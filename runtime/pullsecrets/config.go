// SPDX-License-Identifier: Apache-2.0

package pullsecrets

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

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
	place place
	auth  runtime.ImageAuth
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
		p, ok := parsePlace(name)
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

// place is a registry or a part of a registry. In a place of a secret, parts of the host may
// contain a *.
type place struct {
	host []string // parts between dots
	port string
	path []string // elements
}

const (
	hub       = "docker.io"
	hubIndex  = "index.docker.io"
	hubServer = "registry-1.docker.io"
)

// parsePlace parses the name of a registry in a secret: registry.example:5000/team, with or without
// a scheme. The paths /v1/ and /v2/, which docker's tools write, mean the whole registry.
func parsePlace(name string) (place, bool) {
	_, rest, scheme := strings.Cut(name, "://")
	if scheme {
		name = rest
	}
	host, path, _ := strings.Cut(name, "/")
	for _, version := range []string{"v1/", "v2/"} {
		if rest, ok := strings.CutPrefix(path, version); ok {
			path = rest
			break
		}
	}
	return newPlace(host, path)
}

// placeOf returns the place of an image from its reference.
func placeOf(image string) (place, bool) {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	host, path, ok := strings.Cut(image, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, path = hub, image
		if !ok {
			path = "library/" + image
		}
	}
	return newPlace(host, path)
}

func newPlace(host, path string) (place, bool) {
	if host == hubIndex || host == hubServer {
		host = hub
	}
	var p place
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, p.port = host[:i], host[i+1:]
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n") {
		return p, false
	}
	p.host = strings.Split(strings.ToLower(host), ".")
	p.path = strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	return p, true
}

// covers reports whether credentials for p apply to image.
func (p place) covers(image place) bool {
	if p.port != image.port || len(p.host) != len(image.host) || len(p.path) > len(image.path) {
		return false
	}
	for i := range p.host {
		if !matches(p.host[i], image.host[i]) {
			return false
		}
	}
	return slices.Equal(p.path, image.path[:len(p.path)])
}

// matches reports whether text matches pattern, in which * stands for any text.
func matches(pattern, text string) bool {
	pieces := strings.Split(pattern, "*")
	if len(pieces) == 1 {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, pieces[0])
	if !ok {
		return false
	}
	last := len(pieces) - 1
	for _, piece := range pieces[1:last] {
		i := strings.Index(text, piece)
		if i < 0 {
			return false
		}
		text = text[i+len(piece):]
	}
	return strings.HasSuffix(text, pieces[last])
}

// nearest orders the most specific place first. A host with a * follows the same host without a *.
func nearest(a, b entry) int {
	return cmp.Or(
		cmp.Compare(len(b.place.path), len(a.place.path)),
		cmp.Compare(a.place.stars(), b.place.stars()),
	)
}

func (p place) stars() (n int) {
	for _, part := range p.host {
		n += strings.Count(part, "*")
	}
	return n
}
