// SPDX-License-Identifier: Apache-2.0

package imagestore_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/imagearchive"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/imagestore"
)

func TestMain(m *testing.M) {
	process.Main()
	os.Exit(m.Run())
}

// nobody runs the test again as a user without rights if this process is root, and reports whether
// the caller goes on. dir is a folder of that user.
func nobody(t *testing.T) (dir string, here bool) {
	t.Helper()
	const env = "KEELSON_IMAGES_DIR"
	if dir := os.Getenv(env); dir != "" {
		return dir, true
	}
	if os.Getuid() != 0 {
		dir := t.TempDir()
		inside(t, dir)
		return dir, true
	}
	dir, err := os.MkdirTemp("", "nobody") // t.TempDir is below a folder of root
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	inside(t, dir)
	program, err := os.Executable()
	require.NoError(t, err)
	raw, err := os.ReadFile(program)
	require.NoError(t, err)
	program = filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(program, raw, 0o755))
	const user = 65534
	require.NoError(t, errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, user, user)))
	c := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), env+"="+dir, "HOME="+dir, "TMPDIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "--- SKIP") {
		t.Skip(string(out))
	}
	require.NoError(t, err, string(out))
	t.Logf("as user %d:\n%s", user, out)
	return "", false
}

// inside builds the static program of testdata/inside as dir/inside.
func inside(t *testing.T, dir string) {
	t.Helper()
	c := exec.Command("go", "build", "-o", filepath.Join(dir, "inside"), "./testdata/inside")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath")
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
}

// writeArchive writes an image of two layers as a file of "docker save".
func writeArchive(t *testing.T, file, ref string, program []byte, config v1.Config) {
	t.Helper()
	layer := func(members map[string][]byte) v1.Layer {
		var raw bytes.Buffer
		w := tar.NewWriter(&raw)
		for n, content := range members {
			h := &tar.Header{Name: n, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}
			require.NoError(t, w.WriteHeader(h))
			_, err := w.Write(content)
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw.Bytes())), nil })
		require.NoError(t, err)
		return l
	}
	img, err := mutate.AppendLayers(empty.Image,
		layer(map[string][]byte{"etc/base": []byte("of the image"), "etc/gone": nil, "etc/passwd": []byte("web:x:33:44::/srv:/\n")}),
		layer(map[string][]byte{"etc/.wh.gone": nil, "bin/inside": program, "share/file": []byte("of another image")}))
	require.NoError(t, err)
	file1, err := img.ConfigFile()
	require.NoError(t, err)
	file1.OS, file1.Architecture, file1.Config = "linux", goruntime.GOARCH, config
	img, err = mutate.ConfigFile(img, file1)
	require.NoError(t, err)
	tag, err := name.NewTag(ref)
	require.NoError(t, err)
	require.NoError(t, tarball.WriteToFile(file, tag, img))
}

// node is a backend with images of a folder of archives.
type node struct {
	*testing.T
	dir string
	rt  imagestore.Runtime
}

func newNode(t *testing.T, dir string) *node {
	t.Helper()
	archives, err := imagearchive.NewFolder(filepath.Join(dir, "archives"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "archives"), 0o700))
	store, err := imagestore.New(imagestore.Options{Root: filepath.Join(dir, "images"), Sources: []imagestore.Source{archives}})
	require.NoError(t, err)
	backend, err := process.New(process.Options{Root: filepath.Join(dir, "process"), Confine: true, Images: store})
	if err != nil {
		t.Skip(err)
	}
	return &node{t, dir, imagestore.Runtime{Runtime: backend, Store: store}}
}

// run pulls the image and starts a container.
func (n *node) run(uid string, c corev1.Container, mounts ...runtime.Mount) (runtime.ContainerID, error) {
	n.Helper()
	ctx := n.Context()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid, Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	require.NoError(n, n.rt.CheckPod(pod))
	imageID, err := n.rt.PullImage(ctx, c.Image, nil)
	require.NoError(n, err)
	sandbox, err := n.rt.RunSandbox(ctx, runtime.SandboxSpec{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace, Pod: pod, Hostname: "inside"})
	require.NoError(n, err)
	id, err := n.rt.CreateContainer(ctx, sandbox, runtime.ContainerSpec{
		Name: c.Name, Image: c.Image, ImageID: imageID, Command: c.Command, Args: c.Args, WorkingDir: c.WorkingDir, Mounts: mounts,
		LogPath: n.log(uid), Pod: pod, Container: &c,
	})
	if err != nil {
		return id, err
	}
	n.Cleanup(func() { assert.NoError(n, n.rt.RemoveSandbox(context.Background(), sandbox)) })
	return id, n.rt.StartContainer(ctx, id)
}

func (n *node) log(uid string) string { return filepath.Join(n.dir, uid+".log") }

// await waits until the log has a line, and returns the log without time stamps.
func (n *node) await(uid, line string) string {
	n.Helper()
	var text strings.Builder
	require.Eventually(n, func() bool {
		text.Reset()
		raw, _ := os.ReadFile(n.log(uid))
		for l := range strings.Lines(string(raw)) {
			if parts := strings.SplitN(l, " ", 4); len(parts) == 4 {
				text.WriteString(parts[3])
			}
		}
		return strings.Contains(text.String(), line+"\n")
	}, time.Minute, 10*time.Millisecond, "no %q in the log:\n%s", line, &text)
	return text.String()
}

// TestImageRunsWithoutRoot runs containers of an image of an archive, as a user without rights.
func TestImageRunsWithoutRoot(t *testing.T) {
	dir, here := nobody(t)
	if !here {
		return
	}
	n := newNode(t, dir)
	program, err := os.ReadFile(filepath.Join(dir, "inside"))
	require.NoError(t, err)
	writeArchive(t, filepath.Join(dir, "archives", "inside.tar"), "registry.example/inside:1", program, v1.Config{
		Entrypoint: []string{"inside"}, Cmd: []string{"wait"}, Env: []string{"PATH=/bin", "FROM=image"},
		User: "web", WorkingDir: "/srv/made", StopSignal: "SIGQUIT",
	})
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "file"), []byte("of the volume"), 0o600))

	first := corev1.Container{Name: "c", Image: "registry.example/inside:1"}
	id, err := n.run("first", first, runtime.Mount{Name: "data", HostPath: data, ContainerPath: "/data"})
	require.NoError(t, err)
	out := n.await("first", "ready")
	for _, line := range []string{
		"args [wait]", "ids 33 44", "dir /srv/made", "PATH /bin", "HOME /srv", "FROM image", "HOSTNAME inside",
		"base of the image <nil>", "write <nil>", "data of the volume <nil>",
	} {
		assert.Contains(t, out, line+"\n")
	}
	stdout, _, code, err := n.rt.Exec(t.Context(), id, []string{"inside", "beside"})
	require.NoError(t, err)
	assert.Zero(t, code)
	for _, line := range []string{"args [beside]", "ids 33 44", "base changed <nil>", "data of the volume <nil>"} {
		assert.Contains(t, string(stdout), line+"\n")
	}
	status, err := n.rt.PodStatus(t.Context(), "first")
	require.NoError(t, err)
	imageID, err := n.rt.ImageID(t.Context(), first.Image)
	require.NoError(t, err)
	assert.Equal(t, imageID, status.Containers[0].ImageID)
	used, err := n.rt.ImagesInUse(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{imageID, first.Image}, used)

	// A second container has the image's files, and not those of the first.
	user, root := int64(0), int64(0)
	readOnly := true
	_, err = n.run("second", corev1.Container{
		Name: "c", Image: first.Image, Args: []string{"once"}, WorkingDir: "/etc",
		SecurityContext: &corev1.SecurityContext{RunAsUser: &user, RunAsGroup: &root, ReadOnlyRootFilesystem: &readOnly},
	}, runtime.Mount{Name: "image", Image: first.Image, ImageSubPath: "share", ContainerPath: "/data"})
	require.NoError(t, err)
	out = n.await("second", "done")
	for _, line := range []string{
		"args [once]", "ids 0 0", "dir /etc", "base of the image <nil>", "write open /etc/base: read-only file system",
		"root [bin data dev etc proc run share srv sys tmp var] <nil>", "data of another image <nil>",
	} {
		assert.Contains(t, out, line+"\n")
	}

	require.NoError(t, n.rt.StopContainer(t.Context(), id, time.Minute))
	n.await("first", "stopped by SIGQUIT")
	status, err = n.rt.PodStatus(t.Context(), "first")
	require.NoError(t, err)
	assert.EqualValues(t, 7, status.Containers[0].ExitCode)
}

// A container must not run as root if its pod says so, by the image's user, too.
func TestImageUser(t *testing.T) {
	dir, here := nobody(t)
	if !here {
		return
	}
	n := newNode(t, dir)
	yes := true
	for user, want := range map[string]string{
		"": "runAsNonRoot", "0:44": "runAsNonRoot",
		"nobody": `user "nobody" of the image`, "web": "no such file or directory", "33": "no such file or directory",
	} {
		uid := "user-" + strings.ReplaceAll(user, ":", "-")
		ref := "registry.example/" + uid + "x:1"
		writeArchive(t, filepath.Join(dir, "archives", uid+".tar"), ref, nil, v1.Config{Cmd: []string{"/missing"}, User: user})
		_, err := n.run(uid, corev1.Container{Name: "c", Image: ref, SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes}})
		require.ErrorContains(t, err, want, user)
	}
	writeArchive(t, filepath.Join(dir, "archives", "none.tar"), "registry.example/none:1", nil, v1.Config{})
	_, err := n.run("none", corev1.Container{Name: "c", Image: "registry.example/none:1"})
	require.ErrorContains(t, err, "command")
}
