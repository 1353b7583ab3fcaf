// SPDX-License-Identifier: Apache-2.0

package imageimport_test

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime/imageimport"
)

// randomArchive writes a docker archive with a layer of random bytes.
func randomArchive(t *testing.T, path, name string, mib int) {
	t.Helper()
	layer := make([]byte, mib<<20)
	_, err := rand.Read(layer)
	require.NoError(t, err)
	tarred := archive(member{"data", string(layer)})
	config := `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:` + digest(string(tarred)) + `"]}}`
	file := digest(string(tarred)) + ".tar"
	manifest := `[{"Config":"` + digest(config) + `.json","RepoTags":["` + name + `"],"Layers":["` + file + `"]}]`
	data := archive(member{file, string(tarred)}, member{digest(config) + ".json", config}, member{"manifest.json", manifest})
	require.NoError(t, os.WriteFile(path+".part", data, 0o600))
	require.NoError(t, os.Chtimes(path+".part", time.Time{}, time.Now().Add(-time.Minute)))
	require.NoError(t, os.Rename(path+".part", path))
}

// attacked is a folder of archives and a containerd.
type attacked struct {
	*containerdtest.Instance
	t        *testing.T
	dir      string
	program  string
	problems map[string]string
	folder   *imageimport.Folder
}

func newAttacked(t *testing.T, opts containerdtest.Options) *attacked {
	t.Helper()
	program, err := exec.LookPath("ctr")
	if err != nil {
		t.Skip("no ctr: ", err)
	}
	a := &attacked{Instance: containerdtest.Start(t, opts), t: t, dir: t.TempDir(), program: program, problems: map[string]string{}}
	a.folder, err = imageimport.New(imageimport.Options{
		Dir: a.dir, Importer: imageimport.Ctr{Socket: a.Socket, Program: program}, Period: time.Nanosecond,
		Problem: func(path string, err error) {
			if delete(a.problems, filepath.Base(path)); err != nil {
				a.problems[filepath.Base(path)] = err.Error()
			}
		},
	})
	require.NoError(t, err)
	return a
}

// image returns the image of a name, or nil.
func (a *attacked) image(name string) *runtimeapi.Image {
	a.t.Helper()
	all, err := a.Images.ListImages(a.t.Context(), &runtimeapi.ListImagesRequest{})
	require.NoError(a.t, err)
	for _, image := range all.Images {
		if slices.Contains(image.RepoTags, name) {
			return image
		}
	}
	return nil
}

// ingests returns containerd's unfinished downloads.
func (a *attacked) ingests() string {
	a.t.Helper()
	out, err := a.Ctr(a.t.Context(), "content", "active")
	require.NoError(a.t, err)
	_, lines, _ := strings.Cut(string(out), "\n")
	return lines
}

// An archive that does not fit on containerd's disk is a problem with the name of the file, and no pin.
// If the content fits, and only the unpacked files do not, containerd keeps the image as one that a
// collector may remove. The next archives are imported.
func TestFullDisk(t *testing.T) {
	for name, mib := range map[string]int{"content": 50, "unpacked": 75} {
		t.Run(name, func(t *testing.T) { fillDisk(t, mib) })
	}
}

func fillDisk(t *testing.T, mib int) {
	t.Parallel()
	a := newAttacked(t, containerdtest.Options{Parent: containerdtest.MountDisk(t, mib)})
	randomArchive(t, filepath.Join(a.dir, "big.tar"), "localhost/big:1", 50)
	a.folder.Scan(t.Context())
	require.Contains(t, a.problems["big.tar"], "no space left on device")
	require.Empty(t, a.folder.Pinned())
	if image := a.image("localhost/big:1"); image != nil {
		require.False(t, image.Pinned)
		_, err := a.Images.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: image.Id}})
		require.NoError(t, err)
	}
	require.NoError(t, os.Remove(filepath.Join(a.dir, "big.tar")))
	randomArchive(t, filepath.Join(a.dir, "small.tar"), "localhost/small:1", 1)
	require.Eventually(t, func() bool { a.folder.Scan(t.Context()); return len(a.problems) == 0 }, 30*time.Second, 100*time.Millisecond, "%v", a.problems)
	require.Equal(t, []string{"localhost/small:1"}, a.folder.Pinned())
	require.Eventually(t, func() bool { return a.image("localhost/small:1") != nil }, 30*time.Second, 50*time.Millisecond)
}

// scanOf is the environment variable with the socket and the folder for the process that is killed.
const scanOf = "KEELSON_TEST_SCAN"

// An agent that is killed during an import leaves no image or the whole image, and the next agent
// imports the archive.
func TestKilledImport(t *testing.T) {
	if socket, dir, ok := strings.Cut(os.Getenv(scanOf), " "); ok {
		folder, err := imageimport.New(imageimport.Options{Dir: dir, Importer: imageimport.Ctr{Socket: socket}})
		require.NoError(t, err)
		folder.Scan(t.Context())
		return
	}
	a := newAttacked(t, containerdtest.Options{})
	const name = "localhost/app:1"
	randomArchive(t, filepath.Join(a.dir, "app.tar"), name, 32)
	killed := 0
	for attempt := range 4 {
		agent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledImport$")
		agent.Env = append(os.Environ(), scanOf+"="+a.Socket+" "+a.dir)
		require.NoError(t, agent.Start())
		for range 200 { // until containerd gets the layer
			if a.ingests() != "" || agent.ProcessState != nil {
				break
			}
			<-time.After(5 * time.Millisecond)
		}
		<-time.After(time.Duration(attempt) * 10 * time.Millisecond)
		require.NoError(t, agent.Process.Kill())
		if agent.Wait() != nil {
			killed++
		}
		if image := a.image(name); image != nil {
			assert.Greater(t, image.Size, uint64(32<<20), "the whole image")
			_, err := a.Ctr(t.Context(), "images", "rm", "--sync", name)
			require.NoError(t, err)
		}
	}
	require.Positive(t, killed)
	a.folder.Scan(t.Context())
	require.Empty(t, a.problems)
	require.Eventually(t, func() bool { i := a.image(name); return i != nil && (i.Pinned || !a.HasEvents) }, 30*time.Second, 50*time.Millisecond)
	assert.Greater(t, a.image(name).Size, uint64(32<<20))
	require.Eventually(t, func() bool { return a.ingests() == "" }, 30*time.Second, 50*time.Millisecond, "nothing is left behind")
}
