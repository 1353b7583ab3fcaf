// SPDX-License-Identifier: Apache-2.0

package imagearchive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Archive is an open archive. Its methods are safe for concurrent use.
type Archive struct {
	members members
	images  []Image
}

// Image is an image of an archive.
type Image struct {
	// Names are references, as the archive has them: with a tag, and perhaps without a registry.
	Names []string
	// Digest is the digest of the manifest, or of the index if the archive has the image for several
	// platforms. Empty for the format of "docker save", which has no manifest.
	Digest string

	members   members
	manifests []v1.Descriptor // of a layout: one, or one for each platform
	saved     savedImage      // of "docker save"
}

// Open opens an archive, and reads the names and manifests. Errors name the path.
func Open(path string) (_ *Archive, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("image archive %s: %w", path, err)
		}
	}()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	a := &Archive{}
	switch {
	case info.IsDir():
		root, err := os.OpenRoot(path)
		if err != nil {
			return nil, err
		}
		a.members = folderMembers{root}
	case info.Mode().IsRegular():
		if a.members, err = openTar(path); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("it is neither a folder nor a regular file")
	}
	if err := a.read(); err != nil {
		return nil, errors.Join(err, a.members.close())
	}
	return a, nil
}

// Close closes the archive.
func (a *Archive) Close() error { return a.members.close() }

// Images returns the images of the archive, in the archive's order. The caller must not change
// them.
func (a *Archive) Images() []Image { return a.images }

// read lists the images.
func (a *Archive) read() error {
	saved, err := readSaved(a.members)
	if err != nil {
		return err
	}
	raw, err := document(a.members, "index.json")
	if errors.Is(err, fs.ErrNotExist) {
		for _, s := range saved {
			a.images = append(a.images, Image{Names: s.RepoTags, members: a.members, saved: s})
		}
		if len(saved) == 0 {
			return errors.New("it has neither index.json nor manifest.json")
		}
		return nil
	}
	if err != nil {
		return err
	}
	return a.readLayout(raw, saved)
}

// The annotations of a layout with the name of an image.
const (
	annotationFull = "io.containerd.image.name"
	annotationRef  = "org.opencontainers.image.ref.name"
)

// readLayout lists the images of a layout. A file that "docker save" wrote as a layout, too, has
// the names in manifest.json.
func (a *Archive) readLayout(raw []byte, saved []savedImage) error {
	var index v1.IndexManifest
	if err := json.Unmarshal(raw, &index); err != nil {
		return fmt.Errorf("index.json: %w", err)
	}
	for _, d := range index.Manifests {
		image := Image{Digest: d.Digest.String(), members: a.members}
		for _, key := range []string{annotationFull, annotationRef} {
			if n := d.Annotations[key]; strings.ContainsAny(n, "/:") && !slices.Contains(image.Names, n) {
				image.Names = append(image.Names, n)
			}
		}
		switch {
		case d.MediaType.IsImage():
			image.manifests = []v1.Descriptor{d}
		case d.MediaType.IsIndex():
			if err := image.readIndex(d); err != nil {
				return err
			}
		default:
			continue // an artifact
		}
		a.images = append(a.images, image)
	}
	if len(a.images) == 1 && len(saved) == 1 {
		for _, n := range saved[0].RepoTags {
			if !slices.Contains(a.images[0].Names, n) {
				a.images[0].Names = append(a.images[0].Names, n)
			}
		}
	}
	return nil
}

// readIndex lists the manifests of an image for several platforms.
func (i *Image) readIndex(d v1.Descriptor) error {
	raw, err := blob(i.members, d.Digest)
	if err != nil {
		return err
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(raw, &index); err != nil {
		return fmt.Errorf("index %s: %w", d.Digest, err)
	}
	for _, m := range index.Manifests {
		if m.MediaType.IsImage() && m.Platform != nil {
			i.manifests = append(i.manifests, m)
		}
	}
	return nil
}

// blob reads a document of a layout, and checks the digest.
func blob(m members, digest v1.Hash) ([]byte, error) {
	raw, err := document(m, blobPath(digest))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	if got := hex.EncodeToString(sum[:]); digest.Algorithm != "sha256" || digest.Hex != got {
		return nil, fmt.Errorf("blob %s: its content has the digest sha256:%s", digest, got)
	}
	return raw, nil
}

func blobPath(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

// For returns the image for a platform. An image for another variant of the architecture is taken
// only if there is no image for the variant. Layers are read when they are used.
func (i *Image) For(platform v1.Platform) (v1.Image, error) {
	if i.saved.Config != "" {
		return i.saved.image(i.members)
	}
	for _, wanted := range []v1.Platform{platform, {OS: platform.OS, Architecture: platform.Architecture}} {
		for _, d := range i.manifests {
			if len(i.manifests) == 1 || d.Platform.Satisfies(wanted) {
				raw, err := blob(i.members, d.Digest)
				if err != nil {
					return nil, err
				}
				return partial.CompressedToImage(&layoutImage{members: i.members, manifest: raw, mediaType: d.MediaType})
			}
		}
	}
	return nil, fmt.Errorf("the image is not for %s", platform)
}

// layoutImage is an image of a layout.
type layoutImage struct {
	members   members
	manifest  []byte
	mediaType types.MediaType
}

var _ partial.CompressedImageCore = (*layoutImage)(nil)

// RawManifest returns the manifest, whose digest was checked.
func (l *layoutImage) RawManifest() ([]byte, error) { return l.manifest, nil }

// MediaType returns the manifest's type.
func (l *layoutImage) MediaType() (types.MediaType, error) { return l.mediaType, nil }

// RawConfigFile returns the configuration, with a checked digest.
func (l *layoutImage) RawConfigFile() ([]byte, error) {
	m, err := partial.Manifest(l)
	if err != nil {
		return nil, err
	}
	return blob(l.members, m.Config.Digest)
}

// LayerByDigest returns a layer.
func (l *layoutImage) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	m, err := partial.Manifest(l)
	if err != nil {
		return nil, err
	}
	for _, d := range m.Layers {
		if d.Digest == digest {
			return memberLayer{l.members, blobPath(digest), d}, nil
		}
	}
	return nil, fmt.Errorf("layer %s: %w", digest, fs.ErrNotExist)
}

// memberLayer is a layer that is a file of an archive.
type memberLayer struct {
	members    members
	name       string
	descriptor v1.Descriptor
}

// Digest returns the digest that the manifest names.
func (l memberLayer) Digest() (v1.Hash, error) { return l.descriptor.Digest, nil }

// Compressed opens the layer as it is in the archive.
func (l memberLayer) Compressed() (io.ReadCloser, error) { return l.members.open(l.name) }

// Size returns the size that the manifest names.
func (l memberLayer) Size() (int64, error) { return l.descriptor.Size, nil }

// MediaType returns the type that the manifest names.
func (l memberLayer) MediaType() (types.MediaType, error) { return l.descriptor.MediaType, nil }
