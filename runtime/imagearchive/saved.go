// SPDX-License-Identifier: Apache-2.0

package imagearchive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// savedImage is an image in the manifest.json of "docker save".
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// readSaved reads manifest.json. Without the file there are no images.
func readSaved(m members) ([]savedImage, error) {
	raw, err := document(m, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var saved []savedImage
	if err := json.Unmarshal(raw, &saved); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	for i := range saved {
		if saved[i].Config == "" {
			return nil, fmt.Errorf("manifest.json: image %d has no configuration", i)
		}
		for j, layer := range saved[i].Layers {
			saved[i].Layers[j] = path.Clean(layer)
		}
	}
	return saved, nil
}

// id returns the digest of the configuration in hexadecimal, which is its name in all known formats:
// <id>.json, sha256:<id> and blobs/sha256/<id>.
func (s *savedImage) id() string {
	return strings.TrimPrefix(strings.TrimSuffix(path.Base(s.Config), ".json"), "sha256:")
}

// config returns the configuration, which has the digest of its name and a digest for each layer.
func (s *savedImage) config(m members) (raw []byte, file v1.ConfigFile, err error) {
	raw, err = document(m, path.Clean(s.Config))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, file, fmt.Errorf("the configuration %q is missing", s.Config)
	}
	if err != nil {
		return nil, file, err
	}
	if sum := sha256.Sum256(raw); s.id() != hex.EncodeToString(sum[:]) {
		return nil, file, fmt.Errorf("the configuration %q has the digest sha256:%x: copy the file again", s.Config, sum)
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, file, fmt.Errorf("%s: %w", s.Config, err)
	}
	if len(file.RootFS.DiffIDs) != len(s.Layers) {
		return nil, file, fmt.Errorf("%s has %d layers, and manifest.json has %d", s.Config, len(file.RootFS.DiffIDs), len(s.Layers))
	}
	return raw, file, nil
}

// image returns the image with a manifest that is made up: the layers have the digests of their
// uncompressed content, which the configuration names.
func (s *savedImage) image(m members) (v1.Image, error) {
	config, file, err := s.config(m)
	if err != nil {
		return nil, err
	}
	manifest := v1.Manifest{
		SchemaVersion: 2, MediaType: types.DockerManifestSchema2,
		Config: v1.Descriptor{
			MediaType: types.DockerConfigJSON, Size: int64(len(config)), Digest: v1.Hash{Algorithm: "sha256", Hex: s.id()},
		},
	}
	image := &savedCore{members: m, config: config, names: map[v1.Hash]string{}}
	for i, name := range s.Layers {
		diffID := file.RootFS.DiffIDs[i]
		manifest.Layers = append(manifest.Layers, v1.Descriptor{MediaType: types.DockerUncompressedLayer, Digest: diffID})
		image.names[diffID] = name
	}
	if image.manifest, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(image)
}

// savedCore is an image of "docker save".
type savedCore struct {
	members          members
	manifest, config []byte
	names            map[v1.Hash]string // paths of layers
}

var _ partial.CompressedImageCore = (*savedCore)(nil)

// RawManifest returns the manifest.
func (s *savedCore) RawManifest() ([]byte, error) { return s.manifest, nil }

// MediaType returns the manifest's type.
func (s *savedCore) MediaType() (types.MediaType, error) { return types.DockerManifestSchema2, nil }

// RawConfigFile returns the configuration.
func (s *savedCore) RawConfigFile() ([]byte, error) { return s.config, nil }

// LayerByDigest returns a layer.
func (s *savedCore) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	name, ok := s.names[digest]
	if !ok {
		return nil, fmt.Errorf("layer %s: %w", digest, fs.ErrNotExist)
	}
	return memberLayer{s.members, name, v1.Descriptor{MediaType: types.DockerUncompressedLayer, Digest: digest}}, nil
}
