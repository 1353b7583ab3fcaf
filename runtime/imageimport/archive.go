// SPDX-License-Identifier: Apache-2.0

package imageimport

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/runtime"
)

// Archive is a checked archive of images.
type Archive struct {
	// Path is the path of the file.
	Path string
	// Names are the full names of the images, sorted.
	Names []string
}

// Limits of an archive, far above any real one.
const (
	maxMembers  = 100_000
	maxMetadata = 4 << 20 // bytes of a manifest, an index or a configuration
)

// ErrArchive means an archive that is not imported; the error says why.
var ErrArchive = errors.New("image archive is not used")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrArchive, fmt.Sprintf(format, args...))
}

// Open reads and checks an archive. The error wraps ErrArchive for a wrong content.
func Open(ctx context.Context, name string) (*Archive, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, err := uncompressed(f)
	if err != nil {
		return nil, err
	}
	c := content{small: map[string][]byte{}, sums: map[string]string{}}
	if err := c.read(ctx, tar.NewReader(in)); err != nil {
		return nil, err
	}
	names, err := c.images()
	if err != nil {
		return nil, err
	}
	a := &Archive{Path: name}
	for _, n := range names {
		tagged, err := runtime.NormalizeImage(n)
		if err != nil {
			return nil, bad("image name %q: %v", n, err)
		}
		a.Names = append(a.Names, fullName(tagged))
	}
	slices.Sort(a.Names)
	a.Names = slices.Compact(a.Names)
	if len(a.Names) == 0 {
		return nil, bad("no image has a name: save the image by its name, not by its ID")
	}
	return a, nil
}

// fullName returns the name of an image with its registry, as docker and containerd complete names.
func fullName(name string) string {
	host, rest, found := strings.Cut(name, "/")
	switch {
	case found && (strings.ContainsAny(host, ".:") || host == "localhost"):
		return name
	case found && rest != "":
		return "docker.io/" + name
	}
	return "docker.io/library/" + name
}

// uncompressed returns the tar of a file.
func uncompressed(f io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(f, 1<<16)
	head, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, bad("gzip: %v", err)
		}
		return z, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return nil, bad("zstd is not supported: decompress the file")
	}
	return in, nil
}

// content is the content of an archive without layers.
type content struct {
	small map[string][]byte // files that can be metadata
	sums  map[string]string // sha256 of all files
}

func (c *content) read(ctx context.Context, in *tar.Reader) error {
	for n := 0; ; n++ {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return bad("tar: %v", err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case n >= maxMembers:
			return bad("more than %d members", maxMembers)
		}
		name := path.Clean(h.Name)
		switch {
		case path.IsAbs(name), name == "..", strings.HasPrefix(name, "../"):
			return bad("the member %q is outside of the archive", h.Name)
		case h.Typeflag == tar.TypeDir:
			continue
		case h.Typeflag != tar.TypeReg:
			return bad("the member %q is no regular file", h.Name)
		}
		if _, twice := c.sums[name]; twice {
			return bad("the member %q comes twice", h.Name)
		}
		if err := c.add(name, h.Size, in); err != nil {
			return err
		}
	}
}

// add reads a file, and checks its digest if its name is a digest.
func (c *content) add(name string, size int64, in io.Reader) error {
	sum, kept := sha256.New(), &bytes.Buffer{}
	to := io.Writer(sum)
	if size <= maxMetadata {
		to = io.MultiWriter(sum, kept)
	}
	if _, err := io.Copy(to, in); err != nil {
		return bad("the member %q: %v", name, err)
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	if strings.HasPrefix(name, "blobs/") && strings.TrimPrefix(name, "blobs/sha256/") != hash {
		return bad("the blob %q has the digest sha256:%s: copy the file again", name, hash)
	}
	c.sums[name] = hash
	if size <= maxMetadata {
		c.small[name] = kept.Bytes()
	}
	return nil
}

// descriptor is a part of an OCI index or manifest.
type descriptor struct {
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
}

// images checks that all parts of the images are there, and returns the names of the images.
func (c *content) images() (names []string, err error) {
	_, isOCI := c.small["index.json"]
	_, isDocker := c.small["manifest.json"]
	if !isOCI && !isDocker {
		return nil, bad("neither index.json nor manifest.json: it is no archive of images")
	}
	if isOCI {
		var index struct {
			Manifests []descriptor `json:"manifests"`
		}
		if err := c.decode("index.json", &index); err != nil {
			return nil, err
		}
		for _, d := range index.Manifests {
			if err := c.tree(d, 0); err != nil {
				return nil, err
			}
			names = append(names, namesOf(d)...)
		}
	}
	if isDocker {
		more, err := c.dockerImages()
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	return names, nil
}

// namesOf returns the names in the annotations of an image. A mere tag is no name.
func namesOf(d descriptor) []string {
	if name := d.Annotations["io.containerd.image.name"]; name != "" {
		return []string{name}
	}
	if name := d.Annotations["org.opencontainers.image.ref.name"]; strings.ContainsAny(name, "/:") {
		return []string{name}
	}
	return nil
}

func (c *content) decode(name string, into any) error {
	if err := json.Unmarshal(c.small[name], into); err != nil {
		return bad("%s: %v", name, err)
	}
	return nil
}

// tree checks that the blobs below a descriptor are there. An index may lack the images of other platforms,
// but not all of them.
func (c *content) tree(d descriptor, depth int) error {
	name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
	text, ok := c.small[name]
	switch {
	case c.sums[name] == "":
		return bad("the blob %s is missing", d.Digest)
	case !ok || depth > 2:
		return bad("the blob %s is no manifest", d.Digest)
	case int64(len(text)) != d.Size:
		return bad("the blob %s has %d bytes, and its manifest says %d", d.Digest, len(text), d.Size)
	}
	var m struct {
		Manifests []descriptor `json:"manifests"`
		Config    *descriptor  `json:"config"`
		Layers    []descriptor `json:"layers"`
	}
	if err := c.decode(name, &m); err != nil {
		return err
	}
	complete := len(m.Manifests) == 0
	for _, inner := range m.Manifests {
		if c.sums["blobs/"+strings.Replace(inner.Digest, ":", "/", 1)] == "" {
			continue
		}
		if err := c.tree(inner, depth+1); err != nil {
			return err
		}
		complete = true
	}
	if !complete {
		return bad("the index %s has no image in the archive", d.Digest)
	}
	if m.Config != nil {
		m.Layers = append(m.Layers, *m.Config)
	}
	for _, part := range m.Layers {
		if c.sums["blobs/"+strings.Replace(part.Digest, ":", "/", 1)] == "" {
			return bad("the blob %s is missing", part.Digest)
		}
	}
	return nil
}

// dockerImages checks a docker archive, and returns the names of its images.
func (c *content) dockerImages() (names []string, err error) {
	var images []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := c.decode("manifest.json", &images); err != nil {
		return nil, err
	}
	for _, image := range images {
		config := path.Clean(image.Config)
		if _, ok := c.small[config]; !ok {
			return nil, bad("the configuration %q is missing", image.Config)
		}
		if id := strings.TrimSuffix(path.Base(config), ".json"); id != c.sums[config] {
			return nil, bad("the configuration %q has the digest sha256:%s: copy the file again", image.Config, c.sums[config])
		}
		var known struct {
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			} `json:"rootfs"`
		}
		if err := c.decode(config, &known); err != nil {
			return nil, err
		}
		if len(known.RootFS.DiffIDs) != len(image.Layers) {
			return nil, bad("the image %s has %d layers, and its configuration %d", config, len(image.Layers), len(known.RootFS.DiffIDs))
		}
		for i, layer := range image.Layers {
			layer = path.Clean(layer)
			switch sum := c.sums[layer]; {
			case sum == "":
				return nil, bad("the layer %q is missing", layer)
			case !strings.HasPrefix(layer, "blobs/") && "sha256:"+sum != known.RootFS.DiffIDs[i]:
				return nil, bad("the layer %q has the digest sha256:%s, and the configuration says %s: copy the file again", layer, sum, known.RootFS.DiffIDs[i])
			}
		}
		names = append(names, image.RepoTags...)
	}
	return names, nil
}
