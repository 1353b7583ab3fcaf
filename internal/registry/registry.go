// SPDX-License-Identifier: Apache-2.0

// Package registry matches images with the registries that credentials are for.
package registry

import (
	"cmp"
	"slices"
	"strings"
)

// Place is a registry or a part of a registry. Parts of the host may contain a *.
type Place struct {
	host []string // parts between dots
	port string
	path []string // elements
}

const (
	hub       = "docker.io"
	hubIndex  = "index.docker.io"
	hubServer = "registry-1.docker.io"
)

// Parse parses the name of a registry, as in a secret: registry.example:5000/team, with or without
// a scheme. The paths /v1/ and /v2/, which docker's tools write, mean the whole registry.
func Parse(name string) (Place, bool) {
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

// Of returns the place of an image from its reference.
func Of(image string) (Place, bool) {
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

// Familiar returns a complete reference in the form that container runtimes show: Docker's registry is
// docker.io.
func Familiar(ref string) string {
	if rest, ok := strings.CutPrefix(ref, hubIndex+"/"); ok {
		return hub + "/" + rest
	}
	return ref
}

func newPlace(host, path string) (Place, bool) {
	if host == hubIndex || host == hubServer {
		host = hub
	}
	var p Place
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

// Covers reports whether credentials for p apply to image.
func (p Place) Covers(image Place) bool {
	if p.port != image.port || len(p.host) != len(image.host) || len(p.path) > len(image.path) {
		return false
	}
	for i := range p.host {
		if !Match(p.host[i], image.host[i]) {
			return false
		}
	}
	return slices.Equal(p.path, image.path[:len(p.path)])
}

// Match reports whether text matches glob. A * matches any text, including slashes.
func Match(glob, text string) bool {
	head, rest, star := strings.Cut(glob, "*")
	if !star {
		return glob == text
	}
	text, ok := strings.CutPrefix(text, head)
	if !ok {
		return false
	}
	// A middle piece may match at its leftmost place. The last piece must match at the end.
	for {
		piece, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, piece)
		}
		i := strings.Index(text, piece)
		if i < 0 {
			return false
		}
		text, rest = text[i+len(piece):], after
	}
}

// Compare orders the most specific place first. A host with a * follows the same host without a *.
func Compare(a, b Place) int {
	return cmp.Or(cmp.Compare(len(b.path), len(a.path)), cmp.Compare(a.stars(), b.stars()))
}

func (p Place) stars() (n int) {
	for _, part := range p.host {
		n += strings.Count(part, "*")
	}
	return n
}

// Host returns the host, with the port if there is one.
func (p Place) Host() string {
	host := strings.Join(p.host, ".")
	if p.port != "" {
		host += ":" + p.port
	}
	return host
}

// Repository returns the path on the host, such as team/app.
func (p Place) Repository() string { return strings.Join(p.path, "/") }

// String returns the name of the place, such as registry.example:5000/team/app.
func (p Place) String() string { return strings.Join(append([]string{p.Host()}, p.path...), "/") }
