// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// oneImage is the image "app", in a folder.
type oneImage process.RootFS

func (i oneImage) RootFS(_ context.Context, image string) (process.RootFS, error) {
	if image != "app" {
		return process.RootFS{}, errors.New("there is no such image")
	}
	return process.RootFS(i), nil
}

// TestImages runs containers of an image. The programs of the image are those of this machine,
// mounted as volumes.
func TestImages(t *testing.T) {
	e := newIsolated(t)
	image := t.TempDir()
	require.NoError(t, os.Chmod(image, 0o755))
	for _, dir := range []string{"usr", "bin", "lib", "etc", "var", "run", "srv/site"} {
		require.NoError(t, os.MkdirAll(filepath.Join(image, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(image, "etc/os-release"), []byte("ID=app\n"), 0o644))
	require.NoError(t, os.Symlink("/run", filepath.Join(image, "var/run")))
	require.NoError(t, os.Symlink("../../../../../..", filepath.Join(image, "up")))
	e.rt = e.open(process.Options{Confine: true, Images: oneImage{
		Dir: image, Entrypoint: []string{"sh", "-c"}, Env: []string{"PATH=/usr/bin:/bin", "FROM=image", "BOTH=image"},
		Cmd:  []string{`echo $FROM $BOTH $PWD $(id -u):$(id -g); cat /etc/os-release; echo x > /etc/made; cat /up/data/file; grep -c . /etc/resolv.conf > /dev/null; echo done; exit 3`},
		User: "0:7", WorkingDir: "/srv/site",
	}})
	pod := e.pod("")
	pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Image = nil, "app"
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "BOTH", Value: "pod"}}
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "file"), []byte("data\n"), 0o644))
	mounts := []runtime.Mount{{Name: "data", HostPath: data, ContainerPath: "/up/data"}, {Name: "late", HostPath: data, ContainerPath: "/var/run/late"}}
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		if _, err := os.Stat(dir); err == nil {
			mounts = append(mounts, runtime.Mount{Name: dir, HostPath: dir, ContainerPath: dir, ReadOnly: true})
		}
	}
	id := e.runWith(pod, mounts...)
	assert.Equal(t, int32(3), e.exited(pod).ExitCode)
	assert.Equal(t, "image pod /srv/site 0:7\nID=app\ndata\ndone\n", e.log(pod, 0))
	assert.NoFileExists(t, filepath.Join(image, "etc/made"), "the image is not written")
	require.NoError(t, e.rt.RemoveContainer(t.Context(), id))
	assert.NoDirExists(t, e.folder(id))

	yes := true
	pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsNonRoot: &yes}
	_, err := e.rt.CreateContainer(t.Context(), e.sandbox(pod), e.spec(pod, 1))
	require.ErrorContains(t, err, "runAsNonRoot: the image's user is root")
	pod.Spec.Containers[0].Image = "other"
	_, err = e.rt.CreateContainer(t.Context(), e.sandbox(pod), e.spec(pod, 2))
	require.ErrorContains(t, err, "image other: there is no such image")

	_, err = process.New(process.Options{Root: e.root, Images: oneImage{}})
	require.ErrorContains(t, err, "Options.Images: needs Options.Confine")
}
