// SPDX-License-Identifier: Apache-2.0

package imagearchive_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/imagearchive"
)

// unpacked returns the members of a "docker save" with the layer uncompressed, as docker wrote them
// before version 25.
func unpacked(img v1.Image, tag string) []string {
	layer := string(must(io.ReadAll(must(must(img.Layers())[0].Uncompressed()))))
	id := must(img.ConfigName()).Hex
	return []string{
		"manifest.json", `[{"Config":"` + id + `.json","RepoTags":["` + tag + `"],"Layers":["l/layer.tar"]}]`,
		id + ".json", string(must(img.RawConfigFile())), "l/layer.tar", layer,
	}
}

func TestVerify(t *testing.T) {
	img, other := image(here.Architecture, "1"), image(here.Architecture, "2")
	find := func(members []string, part string) int {
		for i := 0; i < len(members); i += 2 {
			if strings.Contains(members[i], part) {
				return i
			}
		}
		panic(part)
	}
	changed := func(members []string, part, content string) []string {
		members = slices.Clone(members)
		members[find(members, part)+1] = content
		return members
	}
	without := func(members []string, part string) []string {
		i := find(members, part)
		return slices.Delete(slices.Clone(members), i, i+2)
	}
	o, d := contents(t, writeLayout(t, named(img, fullName, "registry.example/app:1"))), unpacked(img, "app:1")
	layer, manifest := must(must(img.Layers())[0].Digest()), must(img.Digest())
	foreign := image("s390x", "f")
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: foreign, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &here}})
	several := contents(t, writeLayout(t, named(index, fullName, "registry.example/app:1")))
	for name, tc := range map[string]struct {
		data  []byte
		names string
		err   string
	}{
		"layout":                   {pack(o...), "registry.example/app:1", ""},
		"layout in gzip":           {gzipped(pack(o...)), "registry.example/app:1", ""},
		"layout in zstd":           {zstded(pack(o...)), "registry.example/app:1", ""},
		"docker":                   {pack(d...), "docker.io/library/app:1", ""},
		"docker, compressed layer": {saved(t, img, "app:1", "localhost/app:2"), "docker.io/library/app:1 localhost/app:2", ""},
		"docker in gzip":           {gzipped(saved(t, img, "app:1")), "docker.io/library/app:1", ""},
		"both":                     {packFolder(t, both(t, img)), "docker.io/library/app:1", ""},
		"both, of two images":      {pack(slices.Concat(o, unpacked(other, "app:2"))...), "docker.io/library/app:2 registry.example/app:1", ""},
		"one platform of two":      {pack(without(several, must(foreign.Digest()).Hex)...), "registry.example/app:1", ""},
		"no platform":              {pack(without(without(several, must(foreign.Digest()).Hex), manifest.Hex)...), "", "has no image in the archive"},
		"a wrong blob":             {pack(changed(o, layer.Hex, "another")...), "", "copy the file again"},
		"no layer":                 {pack(without(o, layer.Hex)...), "", "the blob " + layer.String() + " is missing"},
		"no manifest":              {pack(without(o, manifest.Hex)...), "", "the blob " + manifest.String() + " is missing"},
		"a wrong docker layer":     {pack(changed(d, "l/layer", "another")...), "", `the layer "l/layer.tar" has the digest`},
		"no docker layer":          {pack(without(d, "l/layer")...), "", `the layer "l/layer.tar" is missing`},
		"no configuration":         {pack(d[0], d[1], d[4], d[5]), "", "is missing"},
		"a wrong configuration":    {pack(d[0], d[1], d[2], d[3]+" ", d[4], d[5]), "", "copy the file again"},
		"half a compressed file":   {gzipped(pack(o...))[:300], "", "unexpected EOF"},
		"a name in capitals":       {pack(unpacked(img, "UPPER:1")...), "", `image name "UPPER:1"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "a.tar", tc.data)
			a, err := imagearchive.Verify(t.Context(), path)
			if tc.err != "" {
				require.ErrorIs(t, err, imagearchive.ErrInvalid)
				require.ErrorContains(t, err, tc.err)
				require.ErrorContains(t, err, path)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.names, strings.Join(a.Names(), " "))
			for _, i := range a.Images() {
				opened, err := i.For(here)
				require.NoError(t, err)
				wanted := "1"
				if slices.Contains(i.Names, "app:2") && !slices.Contains(i.Names, "app:1") {
					wanted = "2"
				}
				if name == "both, of two images" {
					assert.Equal(t, wanted, app(t, opened), "names belong to their images")
				}
			}
			in, err := a.Tar()
			require.NoError(t, err)
			defer in.Close()
			plain := must(io.ReadAll(in))
			assert.Zero(t, len(plain)%512, "a tar file without compression")
		})
	}
}

func TestFolderIsNoTar(t *testing.T) {
	dir := writeLayout(t, named(image(here.Architecture, "1"), fullName, "app:1"))
	_, err := imagearchive.Verify(t.Context(), dir)
	require.ErrorContains(t, err, "a folder is not verified")
	a, err := imagearchive.Open(dir)
	require.NoError(t, err)
	_, err = a.Tar()
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// The end of the context is not an invalid archive.
func TestVerifyEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	_, err := imagearchive.Verify(ctx, write(t, "a.tar", saved(t, image(here.Architecture, "1"), "app:1")))
	require.ErrorIs(t, err, stopped)
	require.NotErrorIs(t, err, imagearchive.ErrInvalid)
}

// An archive that is replaced or written after Open is an error that names the file, and never the
// content of the other archive.
func TestChangedArchive(t *testing.T) {
	one, two := image(here.Architecture, "1"), image(here.Architecture, "2")
	for name, change := range map[string]func(t *testing.T, path string, data []byte){
		"replaced": func(t *testing.T, path string, data []byte) {
			require.NoError(t, os.Rename(write(t, "b.tar", data), path))
		},
		"written": func(t *testing.T, path string, data []byte) {
			write(t, path, data)
			require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
		},
	} {
		for format, data := range map[string]func(v1.Image) []byte{
			"tar":  func(i v1.Image) []byte { return saved(t, i, "app:1") },
			"gzip": func(i v1.Image) []byte { return gzipped(saved(t, i, "app:1")) },
		} {
			t.Run(name+" "+format, func(t *testing.T) {
				dir := t.TempDir()
				path := write(t, filepath.Join(dir, "a.tar"), data(one))
				verified, err := imagearchive.Verify(t.Context(), path)
				require.NoError(t, err)
				folder, err := imagearchive.NewFolder(dir)
				require.NoError(t, err)
				fetched, _, err := folder.Image(t.Context(), must(parse("app:1")), here, nil)
				require.NoError(t, err)
				change(t, path, data(two))
				_, err = verified.Tar()
				require.ErrorContains(t, err, "changed while it was read")
				require.ErrorContains(t, err, path)
				_, err = must(fetched.Layers())[0].Uncompressed()
				require.ErrorContains(t, err, "changed while it was read")
				require.ErrorContains(t, err, path)
			})
		}
	}
}

// A file that is written during the read of a layer is an error, too.
func TestChangedDuringRead(t *testing.T) {
	path := write(t, "a.tar", pack(unpacked(image(here.Architecture, strings.Repeat("1", 1<<20)), "app:1")...))
	a, err := imagearchive.Open(path)
	require.NoError(t, err)
	img, err := a.Images()[0].For(here)
	require.NoError(t, err)
	in, err := must(img.Layers())[0].Uncompressed()
	require.NoError(t, err)
	defer in.Close()
	_, err = io.CopyN(io.Discard, in, 1000)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	_, err = io.Copy(io.Discard, in)
	require.ErrorContains(t, err, "image archive "+path)
	require.ErrorContains(t, err, "changed while it was read")
}

func parse(ref string) (name.Reference, error) { return name.ParseReference(ref) }
