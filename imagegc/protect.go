// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"errors"
	"strings"

	"github.com/keelson-dev/keelson/internal/registry"
)

// protection is the compiled form of Policy.Protected.
type protection struct {
	names
	globs []string // patterns with a *
}

func newProtection(patterns []string) *protection {
	p := new(protection)
	for _, pattern := range patterns {
		if strings.Contains(pattern, "*") {
			p.globs = append(p.globs, pattern)
		} else {
			p.add(pattern)
			p.addRepository(pattern) // without effect for a pattern with a tag or digest
		}
	}
	return p
}

func validatePattern(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("it is empty")
	case strings.ContainsAny(pattern, " \t\r\n"):
		return errors.New("references have no spaces")
	}
	return nil
}

// by returns the pattern that protects image, or "".
func (p *protection) by(image *Image) string {
	if name := cmp.Or(p.find(image), p.findRepository(image)); name != "" {
		return name
	}
	for _, glob := range p.globs {
		if matchesImage(glob, image) {
			return glob
		}
	}
	return ""
}

// matchesImage reports whether glob matches the ID, a tag, a digest or a repository of image. A tag
// and a repository match with docker's defaults, too.
func matchesImage(glob string, image *Image) bool {
	if registry.Match(glob, image.ID) {
		return true
	}
	for _, tag := range image.RepoTags {
		if tag == noTag {
			continue
		}
		repository, _ := splitTag(tag)
		for _, name := range [...]string{tag, canonical(tag), repository, qualify(repository)} {
			if registry.Match(glob, name) {
				return true
			}
		}
	}
	for _, digest := range image.RepoDigests {
		repository, _, _ := strings.Cut(digest, "@")
		for _, name := range [...]string{digest, repository, qualify(repository)} {
			if registry.Match(glob, name) {
				return true
			}
		}
	}
	return false
}
