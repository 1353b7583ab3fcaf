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

// Why a secret is of no use. The secret's content is in no error.
var (
	// errType says that a secret is of another type.
	errType = errors.New("not a secret with registry credentials")
	// errMalformed says that a secret does not hold what its type says.
	errMalformed = errors.New("the credentials cannot be read")
)

// entry is what a secret has for one registry, or a part of one.
type entry struct {
	place place
	auth  runtime.ImageAuth
}

// document is what docker writes for one registry.
type document struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// read returns what is in a secret, by registry. Entries that make no sense are left out, unless all are such.
func read(secret *v1.Secret) ([]entry, error) {
	switch secret.Type {
	case v1.SecretTypeDockerConfigJson:
		return readConfig(secret.Data[v1.DockerConfigJsonKey])
	case v1.SecretTypeDockercfg:
		var registries map[string]json.RawMessage
		if json.Unmarshal(secret.Data[v1.DockerConfigKey], &registries) != nil {
			return nil, errMalformed // what json says may quote
		}
		return entriesOf(registries)
	}
	return nil, fmt.Errorf("%w, but of type %q", errType, secret.Type)
}

// readConfig returns what is in a config.json. Programs that know credentials, which docker's own may name, are not run.
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

// readAuth returns what is to be shown to a registry. Of user and password, those in auth count.
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

// decodeAuth takes the base64 of user:password apart, with padding or without.
func decodeAuth(text string) (user, password string, ok bool) {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(text), "="))
	if err != nil {
		return "", "", false
	}
	user, password, ok = strings.Cut(string(plain), ":")
	return user, strings.Trim(password, "\x00"), ok // as docker pads it
}

// place is a registry or a part of one. In those of secrets, parts of the host may have a *.
type place struct {
	host []string // by dots
	port string
	path []string // elements
}

const (
	hub       = "docker.io"
	hubIndex  = "index.docker.io"
	hubServer = "registry-1.docker.io"
)

// parsePlace reads the name of a registry as it is in secrets: registry.example:5000/team, with a scheme or without. The
// paths that docker's tools put there, /v1/ and /v2/, mean all of it.
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

// placeOf is where an image is, by its reference.
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

// covers reports whether credentials for p are for image, too.
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

// matches reports whether text has the form of pattern, in which * stands for any text.
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

// nearest sorts the most particular place first; a * comes after what it stands for.
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
