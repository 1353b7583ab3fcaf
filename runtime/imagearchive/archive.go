// SPDX-License-Identifier: Apache-2.0

package imagearchive

import (
	"context"
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

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/keelson-dev/keelson/internal/registry"
)

// Archive is a file or a folder with images. Its methods are safe for concurrent use. An Archive
// holds no open file: after a change of the file every read is an error.
type Archive struct {
	path    string
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

// ErrInvalid means that the content of a file is the reason of the error. The same content fails
// again.
var ErrInvalid = errors.New("no usable archive of images")

// Open opens an archive, and reads the names and manifests. Errors name the path.
func Open(path string) (*Archive, error) { return open(context.Background(), path, nil) }

// Verify opens a tar file after a check of its whole content, see the package's comment. The end of
// ctx ends the check. A folder is refused.
func Verify(ctx context.Context, path string) (*Archive, error) {
	found := sums{}
	a, err := open(ctx, path, found)
	if err != nil {
		return nil, err
	}
	for i := range a.images {
		if err := a.images[i].verify(found); err != nil {
			return nil, named(path, err)
		}
	}
	return a, nil
}

// open opens an archive, and adds the digests of all members to all, unless all is nil.
func open(ctx context.Context, path string, all sums) (*Archive, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, named(path, err)
	}
	a := &Archive{path: path}
	switch {
	case info.IsDir() && all != nil:
		err = errors.New("a folder is not verified: pack it as a tar file")
	case info.IsDir():
		a.members = folderMembers(path)
	case info.Mode().IsRegular():
		a.members, err = openTar(ctx, path, all)
	default:
		err = errors.New("it is neither a folder nor a regular file")
	}
	if err == nil {
		err = a.read()
	}
	switch {
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, named(path, err)
}

// named adds the path to an error, and ErrInvalid unless the system refused to read.
func named(path string, err error) error {
	if _, system := errors.AsType[*fs.PathError](err); system || errors.Is(err, errChanged) {
		return fmt.Errorf("image archive %s: %w", path, err)
	}
	return fmt.Errorf("image archive %s: %w: %w", path, ErrInvalid, err)
}

// Path returns the path of the archive.
func (a *Archive) Path() string { return a.path }

// Images returns the images of the archive, in the archive's order. The caller must not change
// them.
func (a *Archive) Images() []Image { return a.images }

// Names returns the complete names of all images, with registry and tag, sorted. A name that is no
// reference is left out.
func (a *Archive) Names() []string {
	var names []string
	for _, i := range a.images {
		for _, n := range i.Names {
			if ref, err := name.ParseReference(n, name.WeakValidation); err == nil {
				names = append(names, registry.Familiar(ref.Name()))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Tar opens the uncompressed tar file. For a folder the error is errors.ErrUnsupported.
func (a *Archive) Tar() (in io.ReadCloser, err error) {
	t, ok := a.members.(*tarMembers)
	if !ok {
		return nil, fmt.Errorf("image archive %s: a folder has no tar file: %w", a.path, errors.ErrUnsupported)
	}
	if in, err = t.stream(); err != nil {
		return nil, named(a.path, err)
	}
	return in, nil
}

// read lists the images.
func (a *Archive) read() error {
	saved, err := readSaved(a.members)
	if err != nil {
		return err
	}
	raw, err := document(a.members, "index.json")
	switch {
	case err == nil:
		if err := a.readLayout(raw); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case len(saved) == 0:
		return errors.New("it has neither index.json nor manifest.json")
	}
	for _, s := range saved {
		if !a.addNames(s) {
			a.images = append(a.images, Image{Names: s.RepoTags, members: a.members, saved: s})
		}
	}
	return nil
}

// addNames adds the names of a saved image to the same image of a layout. "docker save" writes both.
func (a *Archive) addNames(s savedImage) bool {
	for i := range a.images {
		image := &a.images[i]
		for _, d := range image.manifests {
			raw, err := blob(image.members, d.Digest)
			if err != nil {
				continue // of another platform
			}
			var m v1.Manifest
			if json.Unmarshal(raw, &m) != nil || m.Config.Digest.Hex != s.id() {
				continue
			}
			for _, n := range s.RepoTags {
				if !slices.Contains(image.Names, n) {
					image.Names = append(image.Names, n)
				}
			}
			return true
		}
	}
	return false
}

// The annotations of a layout with the name of an image.
const (
	annotationFull = "io.containerd.image.name"
	annotationRef  = "org.opencontainers.image.ref.name"
)

// readLayout lists the images of a layout.
func (a *Archive) readLayout(raw []byte) error {
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
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the blob %s is missing", digest)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	if got := hex.EncodeToString(sum[:]); digest.Algorithm != "sha256" || digest.Hex != got {
		return nil, fmt.Errorf("the blob %s has the digest sha256:%s: copy the file again", digest, got)
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
