// SPDX-License-Identifier: Apache-2.0

package imagegc

import "strings"

// One image has many names: an ID, digests, tags, each with or without what a registry client fills in. Whoever asks
// whether an image is in use may know any of them. Where names are ambiguous they match too much rather than too little:
// an image too many stays.

// noTag is how docker lists an image that lost its tag.
const noTag = "<none>:<none>"

const (
	defaultHost = "docker.io/"
	defaultOrg  = "library/"
	defaultTag  = ":latest"
	idDigest    = "sha256:"
)

// names is a set of image names that can be compared with images.
type names struct {
	keys         map[string]string // every form of a name: the name as it was given
	repositories map[string]string // those of which any tag is meant
	lengths      [4]uint64         // which lengths keys have, modulo 256: most of what is looked up is none
	short        bool              // some have no registry
}

// shortForm is how a name without a registry, with a tag, is among the keys. No reference begins so.
const shortForm = "*/"

// add adds a name: an ID, a digest, a reference with or without tag and digest. Schemes that old runtimes put in front
// (docker-pullable://) do not count. The empty name is nobody's.
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
	if digest != "" && (tag == "" || reference == digest) || repository == "" {
		return
	}
	if tag == "" {
		tag = defaultTag
	}
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

// addRepository adds all images of a repository, whatever their tag.
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

// maxForms is how many forms of an image's names are looked at without allocating.
const maxForms = 24

// find returns the name in n that image has, or "".
func (n *names) find(image *Image) string {
	if len(n.keys) == 0 {
		return ""
	}
	var buffer [maxForms]string
	return n.findForm(n.forms(buffer[:0], image))
}

// findForm returns the name in n that has one of the forms, or "".
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

// forms appends to out all under which image may be among the keys.
func (n *names) forms(out []string, image *Image) []string {
	out = append(out, image.ID)
	if !strings.HasPrefix(image.ID, idDigest) {
		out = append(out, idDigest+image.ID)
	}
	for _, digest := range image.RepoDigests {
		out = append(out, digest)
		if d := digestOf(digest); d != "" {
			out = append(out, d)
		}
	}
	for _, tag := range image.RepoTags {
		if tag == noTag {
			continue
		}
		full := canonical(tag)
		out = append(out, tag)
		if full != tag {
			out = append(out, full)
		}
		if !n.short {
			continue
		}
		for _, rest, ok := strings.Cut(full, "/"); ok; _, rest, ok = strings.Cut(rest, "/") {
			out = append(out, shortForm+rest)
		}
	}
	return out
}

// findRepository returns the repository in n that image is of, or "".
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

// digestOf returns the digest that a name is or ends in, "" if there is none. 64 hexadecimal digits are one, too: how
// some runtimes write IDs.
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
	if i < 0 || strings.IndexByte(reference[i:], '/') >= 0 {
		return reference, ""
	}
	return reference[:i], reference[i:]
}

// hasHost reports whether a repository begins with a registry, by docker's rule.
func hasHost(repository string) bool {
	for i := range len(repository) {
		switch repository[i] {
		case '.', ':':
			return strings.IndexByte(repository[i:], '/') > 0
		case '/':
			return repository[:i] == "localhost"
		}
	}
	return false
}

// canonical is a reference with all that docker means by it.
func canonical(reference string) string {
	repository, tag := splitTag(reference)
	if full := qualify(repository); full != repository {
		return full + tag
	}
	return reference
}

// qualify puts in front of a repository what docker means if nothing is there.
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
		return repository // as it is
	}
	return defaultHost + path
}
