// SPDX-License-Identifier: Apache-2.0

package imageimport_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/imagearchive"
	"github.com/keelson-dev/keelson/runtime/imageimport"
)

func digest(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

// member is a file of an archive.
type member struct{ name, data string }

func archive(members ...member) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.data)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		_, _ = w.Write([]byte(m.data))
	}
	_ = w.Close()
	return b.Bytes()
}

func blob(data string) member { return member{name: "blobs/sha256/" + digest(data), data: data} }

func described(data, annotations string) string {
	return fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%d,"annotations":{%s}}`, digest(data), len(data), annotations)
}

// oci returns the members of an OCI layout with an image of the name.
func oci(name string) []member {
	layer, config := "layer of "+name, `{}`
	manifest := fmt.Sprintf(`{"config":%s,"layers":[%s]}`, described(config, ""), described(layer, ""))
	index := `{"manifests":[` + described(manifest, fmt.Sprintf(`"io.containerd.image.name":%q`, name)) + `]}`
	return []member{{name: "oci-layout", data: `{"imageLayoutVersion":"1.0.0"}`}, {name: "index.json", data: index}, blob(layer), blob(config), blob(manifest)}
}

// docker returns the members of a docker archive.
func docker(tags ...string) []member {
	layer := "layer"
	config := fmt.Sprintf(`{"rootfs":{"diff_ids":["sha256:%s"]}}`, digest(layer))
	images, _ := json.Marshal([]map[string]any{{"Config": digest(config) + ".json", "RepoTags": tags, "Layers": []string{"l/layer.tar"}}})
	return []member{{name: "manifest.json", data: string(images)}, {name: digest(config) + ".json", data: config}, {name: "l/layer.tar", data: layer}}
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

// store is an Importer in memory. It fails as long as broken is set.
type store struct {
	pinned map[string]bool
	loads  int
	broken error
}

func (s *store) Import(_ context.Context, a *imagearchive.Archive) error {
	s.loads++
	if s.broken != nil {
		return s.broken
	}
	for _, name := range a.Names() {
		s.pinned[name] = true
	}
	return nil
}

func (s *store) Unpin(_ context.Context, names []string) error {
	for _, name := range names {
		delete(s.pinned, name)
	}
	return s.broken
}

func TestFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, to := filepath.Join(t.TempDir(), "images"), &store{pinned: map[string]bool{}}
		problems := map[string]string{}
		f, err := imageimport.New(imageimport.Options{Dir: dir, Importer: to, Problem: func(path string, err error) {
			if problems[filepath.Base(path)] = fmt.Sprint(err); err == nil {
				delete(problems, filepath.Base(path))
			}
		}})
		require.NoError(t, err)
		write := func(name string, data []byte) {
			require.NoError(t, os.MkdirAll(dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
			require.NoError(t, os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Now()))
		}
		scan := func(pinned ...string) {
			t.Helper()
			time.Sleep(3 * time.Second)
			f.Scan(t.Context())
			assert.Equal(t, append([]string{}, pinned...), append([]string{}, f.Pinned()...))
			assert.Len(t, to.pinned, len(pinned))
		}
		scan()
		require.Empty(t, problems, "a missing folder is empty")
		write("a.tar", archive(oci("localhost/a:1")...))
		again := f.Scan(t.Context())
		require.Zero(t, to.loads, "the file may grow")
		require.Equal(t, 2*time.Second, time.Until(again))
		write("b.tgz", zipped(archive(docker("localhost/a:1", "localhost/b:1")...)))
		write("c.part", nil)
		write(".d.tar", nil)
		scan("localhost/a:1", "localhost/b:1")
		scan("localhost/a:1", "localhost/b:1")
		require.Equal(t, 2, to.loads, "once each")

		write("e.tar", archive(oci("localhost/e:1")...)[:2000])
		scan("localhost/a:1", "localhost/b:1")
		require.Contains(t, problems["e.tar"], "is missing")
		write("e.tar", archive(oci("localhost/e:1")...))
		scan("localhost/a:1", "localhost/b:1", "localhost/e:1")
		require.Empty(t, problems)

		require.NoError(t, os.Remove(filepath.Join(dir, "a.tar")))
		scan("localhost/a:1", "localhost/b:1", "localhost/e:1") // b.tgz has the image, too
		require.NoError(t, os.Remove(filepath.Join(dir, "b.tgz")))
		scan("localhost/e:1")
		write("e.tar", archive(oci("localhost/e:2")...))
		scan("localhost/e:2")

		to.broken = errors.New("no space left")
		write("f.tar", archive(oci("localhost/f:1")...))
		scan("localhost/e:2")
		require.Equal(t, "import: no space left", problems["f.tar"])
		to.broken = nil
		loads := to.loads
		scan("localhost/e:2")
		require.Equal(t, loads, to.loads, "not at once")
		time.Sleep(20 * time.Second)
		scan("localhost/e:2", "localhost/f:1")
		require.Empty(t, problems)
	})
}

func TestRunFollowsTheFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, to, hints := t.TempDir(), &store{pinned: map[string]bool{}}, make(chan struct{})
		f, err := imageimport.New(imageimport.Options{Dir: dir, Importer: to, Period: time.Hour,
			Hints: func(context.Context, string) (<-chan struct{}, error) { return hints, nil }})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.tar"), archive(oci("localhost/a:1")...), 0o600))
		require.NoError(t, os.Chtimes(filepath.Join(dir, "a.tar"), time.Time{}, time.Now()))
		hints <- struct{}{}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"localhost/a:1"}, f.Pinned())
		stop()
		require.NoError(t, <-ended)
	})
}

// A file that was written just before the first Scan is imported by Run when it has been unchanged for long enough, not a Period later.
func TestRunImportsAFileThatWasTooNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, to := t.TempDir(), &store{pinned: map[string]bool{}}
		f, err := imageimport.New(imageimport.Options{Dir: dir, Importer: to, Period: time.Hour})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.tar"), archive(oci("localhost/a:1")...), 0o600))
		require.NoError(t, os.Chtimes(filepath.Join(dir, "a.tar"), time.Time{}, time.Now()))
		f.Scan(t.Context())
		require.Empty(t, f.Pinned())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"localhost/a:1"}, f.Pinned())
		stop()
		require.NoError(t, <-ended)
	})
}

func TestOptions(t *testing.T) {
	_, err := imageimport.New(imageimport.Options{Dir: "images", Importer: &store{}})
	require.ErrorContains(t, err, "Options.Dir")
	_, err = imageimport.New(imageimport.Options{Dir: "/images"})
	require.ErrorContains(t, err, "Options.Importer")
}

// A program in the place of ctr records its calls.
func TestCtr(t *testing.T) {
	dir := t.TempDir()
	program, log := filepath.Join(dir, "ctr"), filepath.Join(dir, "log")
	script := "#!/bin/sh\necho \"$@\" >> " + log + "\ncase \"$*\" in *import*) wc -c >> " + log + ";; *gone*) echo 'image: not found'; exit 1;; *broken*) echo why not; exit 1;; esac\n"
	require.NoError(t, os.WriteFile(program, []byte(script), 0o700))
	data := archive(oci("localhost/a:1")...)
	path := filepath.Join(dir, "a.tgz")
	require.NoError(t, os.WriteFile(path, zipped(data), 0o600))
	c := imageimport.Ctr{Socket: "/run/c.sock", Program: program}
	a, err := imagearchive.Open(path)
	require.NoError(t, err)
	require.NoError(t, c.Import(t.Context(), a))
	require.NoError(t, c.Unpin(t.Context(), []string{"localhost/a:1", "gone"}))
	require.ErrorContains(t, c.Unpin(t.Context(), []string{"broken"}), "why not")
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	const begin = "--address /run/c.sock --namespace k8s.io images "
	assert.Equal(t, begin+"import -\n"+fmt.Sprint(len(data))+"\n"+begin+"label localhost/a:1 io.cri-containerd.pinned=pinned\n"+
		begin+"label localhost/a:1 io.cri-containerd.pinned=\n"+begin+"label gone io.cri-containerd.pinned=\n"+begin+"label broken io.cri-containerd.pinned=\n", string(text))
}

// discard is an importer that keeps nothing.
type discard struct{}

func (discard) Import(context.Context, *imagearchive.Archive) error { return nil }
func (discard) Unpin(context.Context, []string) error               { return nil }

func Example() {
	dir, _ := os.MkdirTemp("", "images")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "app.tar")
	if err := os.WriteFile(path, archive(docker("registry.example/app:1")...), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	_ = os.Chtimes(path, time.Time{}, time.Now().Add(-time.Minute)) // not being copied
	folder, err := imageimport.New(imageimport.Options{Dir: dir, Importer: discard{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	folder.Scan(context.Background())
	fmt.Println(folder.Pinned())
	// Output: [registry.example/app:1]
}
