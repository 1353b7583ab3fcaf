// SPDX-License-Identifier: Apache-2.0

package imagearchive

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// sums are the digests of all members of an archive, by path.
type sums map[string]sum

// sum has digests of a member in hexadecimal: of its bytes, and of the bytes without compression.
type sum struct{ raw, plain string }

const blobsFolder = "blobs/"

// add reads a member. The path of a blob has to be the digest of its content.
func (s sums) add(ctx context.Context, path string, content io.Reader) error {
	whole := sha256.New()
	in := bufio.NewReader(io.TeeReader(untilDone{ctx, content}, whole))
	var found sum
	if !strings.HasPrefix(path, blobsFolder) {
		start, _ := in.Peek(4)
		plain, err := plainReader(start, in)
		if err == nil && plain != nil {
			inner := sha256.New()
			_, err = io.Copy(inner, plain)
			found.plain = hex.EncodeToString(inner.Sum(nil))
		}
		if err != nil {
			return fmt.Errorf("the member %.100q: %w", path, err)
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return fmt.Errorf("the member %.100q: %w", path, err)
	}
	found.raw = hex.EncodeToString(whole.Sum(nil))
	found.plain = cmp.Or(found.plain, found.raw)
	if strings.HasPrefix(path, blobsFolder) && path != blobsFolder+"sha256/"+found.raw {
		return fmt.Errorf("the blob %.100q has the digest sha256:%s: copy the file again", path, found.raw)
	}
	s[path] = found
	return nil
}

// untilDone is a reader that fails after the end of ctx.
type untilDone struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (u untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.Reader.Read(p)
}

// verify checks that an image is complete, and that its names are references. An image for several
// platforms may lack platforms, but not all.
func (i *Image) verify(found sums) error {
	for _, n := range i.Names {
		if _, err := name.ParseReference(n, name.WeakValidation); err != nil {
			return fmt.Errorf("image name %q: %w", n, err)
		}
	}
	if i.saved.Config != "" {
		return i.saved.verify(i.members, found)
	}
	complete := false
	for _, d := range i.manifests {
		if _, there := found[blobPath(d.Digest)]; !there && len(i.manifests) > 1 {
			continue
		}
		if err := verifyManifest(i.members, d, found); err != nil {
			return err
		}
		complete = true
	}
	if !complete {
		return fmt.Errorf("the index %s has no image in the archive", i.Digest)
	}
	return nil
}

// verifyManifest checks that the archive has the blobs of a manifest.
func verifyManifest(m members, d v1.Descriptor, found sums) error {
	raw, err := blob(m, d.Digest)
	if err != nil {
		return err
	}
	var manifest v1.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return fmt.Errorf("the blob %s: %w", d.Digest, err)
	}
	for _, part := range append(manifest.Layers, manifest.Config) {
		if _, there := found[blobPath(part.Digest)]; !there {
			return fmt.Errorf("the blob %s is missing", part.Digest)
		}
	}
	return nil
}

// verify checks that the layers have the digests of the configuration.
func (s *savedImage) verify(m members, found sums) error {
	_, file, err := s.config(m)
	if err != nil {
		return err
	}
	for i, layer := range s.Layers {
		switch sum, there := found[layer]; {
		case !there:
			return fmt.Errorf("the layer %q is missing", layer)
		case !strings.HasPrefix(layer, blobsFolder) && "sha256:"+sum.plain != file.RootFS.DiffIDs[i].String():
			return fmt.Errorf("the layer %q has the digest sha256:%s, and the configuration says %s: copy the file again", layer, sum.plain, file.RootFS.DiffIDs[i])
		}
	}
	return nil
}
