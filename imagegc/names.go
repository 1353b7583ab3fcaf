// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"strings"
)

// An image has many names: an ID, digests and tags, each with or without the defaults of a registry
// client. InUse and leases may use any name. An ambiguous name matches too many images rather than
// too few, so that an error keeps an image.

// noTag is docker's name for an untagged image.
const noTag = "<none>:<none>"

const (
	defaultHost = "docker.io/"
	defaultOrg  = "library/"
	defaultTag  = ":latest"
	idDigest    = "sha256:"
)

// names is a set of image names that images are matched against.
type names struct {
	keys         map[string]string // every form of a name: the original name
	repositories map[string]string // repositories whose tags all match
	lengths      [4]uint64         // bit set of the lengths of keys, modulo 256; rules out most lookups
	short        bool              // some names have no registry
}

// shortForm is the prefix of the keys of tagged names without a registry. No valid reference begins
// with shortForm.
const shortForm = "*/"

// add adds a name: an ID, a digest, or a reference with or without tag and digest. A scheme of an
// old runtime (docker-pullable://) is ignored. An empty name matches no image.
func (n *names) add(name string) {
	if name == "" {
		return
	}
	n.put(name, name)
	reference := name
	if _, rest, ok := strings.Cut(reference, "://"); ok {
		reference = rest
		n.put(reference, name)
	}
	digest := digestOf(reference)
	if digest != "" {
		n.put(digest, name)
	}
	reference, _, _ = strings.Cut(reference, "@")
	repository, tag := splitTag(reference)
	if digest != "" && (tag == "" || reference == digest) {
		return
	}
	tag = cmp.Or(tag, defaultTag)
	n.put(qualify(repository)+tag, name)
	if !hasHost(repository) {
		n.put(shortForm+repository+tag, name)
		n.short = true
	}
}

// addID adds the ID of an image.
func (n *names) addID(id string) {
	if id != "" {
		n.put(id, id)
	}
	if d := digestOf(id); d != "" {
		n.put(d, id)
	}
}

// addRepository adds all images of a repository with any tag.
func (n *names) addRepository(repository string) {
	if n.repositories == nil {
		n.repositories = make(map[string]string)
	}
	full := qualify(repository)
	if _, known := n.repositories[full]; !known {
		n.repositories[full] = repository
	}
}

func (n *names) put(form, name string) {
	if n.keys == nil {
		n.keys = make(map[string]string)
	}
	if _, known := n.keys[form]; !known {
		n.keys[form] = name
		n.lengths[len(form)>>6&3] |= 1 << (len(form) & 63)
	}
}

// maxForms is the number of name forms of an image that need no allocation.
const maxForms = 24

// find returns a name in n of the image, or "".
func (n *names) find(image *Image) string {
	if len(n.keys) == 0 {
		return ""
	}
	var buffer [maxForms]string
	return n.findForm(n.forms(buffer[:0], image))
}

// findForm returns the name in n with any of the forms, or "".
func (n *names) findForm(forms []string) string {
	for _, form := range forms {
		if n.lengths[len(form)>>6&3]&(1<<(len(form)&63)) == 0 {
			continue
		}
		if name, ok := n.keys[form]; ok {
			return name
		}
	}
	return ""
}

// forms appends every possible key of image to out.
func (n *names) forms(out []string, image *Image) []string {
	out = append(out, image.ID)
	if !strings.HasPrefix(image.ID, idDigest) {
		out = append(out, idDigest+image.ID)
	}
	for _, digest := range image.RepoDigests {
		out = append(out, digest, digestOf(digest)) // keys never contains ""
	}
	for _, tag := range image.RepoTags {
		if tag == noTag {
			continue
		}
		full := canonical(tag)
		out = append(out, tag, full)
		if !n.short {
			continue
		}
		for _, rest, ok := strings.Cut(full, "/"); ok; _, rest, ok = strings.Cut(rest, "/") {
			out = append(out, shortForm+rest)
		}
	}
	return out
}

// findRepository returns the repository of image in n, or "".
func (n *names) findRepository(image *Image) string {
	if len(n.repositories) == 0 {
		return ""
	}
	for _, references := range [][]string{image.RepoTags, image.RepoDigests} {
		for _, reference := range references {
			reference, _, _ = strings.Cut(reference, "@")
			repository, _ := splitTag(reference)
			if name, ok := n.repositories[qualify(repository)]; ok {
				return name
			}
		}
	}
	return ""
}

// digestOf returns the digest at the end of a name, or "". It accepts 64 bare hexadecimal digits,
// because some runtimes write IDs without the algorithm.
func digestOf(name string) string {
	if i := strings.LastIndexByte(name, '@'); i >= 0 {
		return name[i+1:]
	}
	hex, sha := strings.CutPrefix(name, idDigest)
	if len(hex) != 64 {
		return ""
	}
	for i := range len(hex) {
		if c := hex[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	if sha {
		return name
	}
	return idDigest + hex
}

// splitTag cuts the tag, with its colon, from a reference without a digest.
func splitTag(reference string) (repository, tag string) {
	i := strings.LastIndexByte(reference, ':')
	if i < 0 || strings.Contains(reference[i:], "/") {
		return reference, ""
	}
	return reference[:i], reference[i:]
}

// hasHost reports whether a repository begins with a registry, by docker's rule.
func hasHost(repository string) bool {
	for i := range len(repository) {
		switch repository[i] {
		case '.', ':':
			return strings.Contains(repository[i:], "/")
		case '/':
			return repository[:i] == "localhost"
		}
	}
	return false
}

// canonical returns a reference with docker's default registry and organization filled in.
func canonical(reference string) string {
	repository, tag := splitTag(reference)
	if full := qualify(repository); full != repository {
		return full + tag
	}
	return reference
}

// qualify adds docker's default registry and organization to a repository.
func qualify(repository string) string {
	path, docker := strings.CutPrefix(strings.TrimPrefix(repository, "index."), defaultHost)
	if !docker {
		if hasHost(repository) {
			return repository
		}
		path = repository
	}
	if !strings.Contains(path, "/") {
		path = defaultOrg + path
	}
	if docker && len(repository) == len(defaultHost)+len(path) {
		return repository // already qualified
	}
	return defaultHost + path
}
