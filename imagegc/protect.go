// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"errors"
	"strings"
)

// protection is Policy.Protected, ready for use.
type protection struct {
	names
	globs []glob
}

// glob is a pattern with a *.
type glob struct {
	text   string
	anyTag bool // it names none, and no digest
}

func newProtection(patterns []string) *protection {
	p := new(protection)
	for _, pattern := range patterns {
		if strings.Contains(pattern, "*") {
			_, tag := splitTag(pattern)
			p.globs = append(p.globs, glob{pattern, tag == "" && !strings.Contains(pattern, "@")})
			continue
		}
		p.add(pattern)
		if _, tag := splitTag(pattern); tag == "" && digestOf(pattern) == "" {
			p.addRepository(pattern)
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
	for _, g := range p.globs {
		if g.matches(image) {
			return g.text
		}
	}
	return ""
}

func (g glob) matches(image *Image) bool {
	if match(g.text, image.ID) {
		return true
	}
	for _, tag := range image.RepoTags {
		if tag == noTag {
			continue
		}
		repository, suffix := splitTag(tag)
		if match(g.text, tag) || g.anyTag && match(g.text, repository) {
			return true
		}
		if full := qualify(repository); full != repository && (match(g.text, full+suffix) || g.anyTag && match(g.text, full)) {
			return true
		}
	}
	for _, digest := range image.RepoDigests {
		if match(g.text, digest) {
			return true
		}
		if repository, _, _ := strings.Cut(digest, "@"); g.anyTag && (match(g.text, repository) || match(g.text, qualify(repository))) {
			return true
		}
	}
	return false
}

// match reports whether text has the form of glob, in which * stands for any text, also with slashes.
func match(glob, text string) bool {
	head, rest, star := strings.Cut(glob, "*")
	if !star {
		return glob == text
	}
	text, ok := strings.CutPrefix(text, head)
	if !ok {
		return false
	}
	// The leftmost place is as good as any for a piece in the middle; the last piece has to be at the end.
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
