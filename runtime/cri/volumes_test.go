// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// mounting makes the node add the mounts to every container.
func (n *node) mounting(mounts ...runtime.Mount) {
	n.Helper()
	var err error
	n.gen, err = runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{
		LogRoot: filepath.Join(n.root, "logs"),
		Volumes: func(context.Context, *v1.Pod, *v1.Container) ([]runtime.Mount, error) { return mounts, nil },
	})
	require.NoError(n, err)
}

func TestImageVolume(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	const image = "localhost/content:1"
	p := pod("image-volume", "cat /content/dir/file /part/file; touch /content/x 2>/dev/null || echo read-only; echo end")
	p.Spec.HostNetwork = true
	p.Spec.Volumes = []v1.Volume{{Name: "content", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: image}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "content", MountPath: "/content"}, {Name: "content", MountPath: "/part", SubPath: "dir"}}
	if !n.rt.Info().ImageVolumes {
		err := n.rt.CheckPod(p)
		require.ErrorIs(t, err, runtime.ErrUnsupported)
		assert.ErrorContains(t, err, "spec.volumes[0].image (this runtime mounts no images)")
		return
	}
	require.NoError(t, containerd.Get(t).Import(t.Context(), containerdtest.Image{Name: image, Files: map[string]string{"/dir/file": "content\n"}}))
	n.mounting(
		runtime.Mount{Name: "content", Image: image, ContainerPath: "/content"},
		runtime.Mount{Name: "content", Image: image, ImageSubPath: "dir", ContainerPath: "/part"},
	)
	id, err := n.rt.ImageID(t.Context(), image)
	require.NoError(t, err)
	n.start(p)
	assert.Equal(t, "content\ncontent\nread-only\nend\n", n.output(n.ended(p)))
	names, err := n.rt.ImagesInUse(t.Context())
	require.NoError(t, err)
	assert.Contains(t, names, id, "for as long as there is the container")
}

// A mount below a read-only mount is read-only if requested and supported by the runtime.
func TestRecursiveReadOnly(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	volume := t.TempDir()
	below := filepath.Join(volume, "below")
	require.NoError(t, os.Mkdir(below, 0o700))
	require.NoError(t, unix.Mount("none", below, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(below, 0)) })
	n.mounting(
		runtime.Mount{Name: "vol", HostPath: volume, ContainerPath: "/plain", ReadOnly: true},
		runtime.Mount{Name: "vol", HostPath: volume, ContainerPath: "/wholly", ReadOnly: true},
	)
	mode := v1.RecursiveReadOnlyEnabled
	p := pod("recursive", `for d in plain wholly; do
		touch /$d/x 2>/dev/null && echo $d is written
		touch /$d/below/x 2>/dev/null && echo $d/below is written
		done; echo end`)
	p.Spec.HostNetwork = true
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "vol", MountPath: "/plain", ReadOnly: true}, {Name: "vol", MountPath: "/wholly", ReadOnly: true, RecursiveReadOnly: &mode},
	}
	if !n.rt.Info().Handlers[""].RecursiveReadOnlyMounts {
		assert.ErrorContains(t, n.rt.CheckPod(p), "spec.containers[0].volumeMounts[1].recursiveReadOnly (this runtime has no such mounts)")
		mode = v1.RecursiveReadOnlyIfPossible
		n.start(p)
		assert.Equal(t, "plain/below is written\nwholly/below is written\nend\n", n.output(n.ended(p)))
		return
	}
	n.start(p)
	assert.Equal(t, "plain/below is written\nend\n", n.output(n.ended(p)))
}

// A later mount on the node is seen by a container with HostToContainer. A mount made by a
// privileged container with Bidirectional is seen on the node.
func TestMountPropagation(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	volume := t.TempDir()
	require.NoError(t, unix.Mount(volume, volume, "", unix.MS_BIND, ""))
	require.NoError(t, unix.Mount("", volume, "", unix.MS_SHARED, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(volume, unix.MNT_DETACH)) })
	for _, dir := range []string{"in", "out"} {
		require.NoError(t, os.Mkdir(filepath.Join(volume, dir), 0o700))
	}
	n.mounting(
		runtime.Mount{Name: "vol", HostPath: volume, ContainerPath: "/private"},
		runtime.Mount{Name: "vol", HostPath: volume, ContainerPath: "/from"},
		runtime.Mount{Name: "vol", HostPath: volume, ContainerPath: "/both"},
	)
	from, both, privileged := v1.MountPropagationHostToContainer, v1.MountPropagationBidirectional, true
	p := pod("propagation", idle)
	p.Spec.HostNetwork = true
	p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: &privileged}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "vol", MountPath: "/private"}, {Name: "vol", MountPath: "/from", MountPropagation: &from}, {Name: "vol", MountPath: "/both", MountPropagation: &both},
	}
	id := n.start(p)
	require.NoError(t, unix.Mount("none", filepath.Join(volume, "in"), "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(filepath.Join(volume, "in"), 0)) })
	require.NoError(t, os.WriteFile(filepath.Join(volume, "in", "seen"), nil, 0o600))
	out, _, code, err := n.rt.Exec(t.Context(), id, []string{"sh", "-c", "ls /*/in/seen; mount -t tmpfs none /both/out && touch /both/out/seen"})
	require.NoError(t, err)
	require.Zero(t, code)
	assert.Equal(t, "/both/in/seen\n/from/in/seen\n", string(out))
	assert.FileExists(t, filepath.Join(volume, "out", "seen"))
	require.NoError(t, unix.Unmount(filepath.Join(volume, "out"), 0))
}

// Root in the pod has no rights on the node, but can use its own files.
func TestUserNamespace(t *testing.T) {
	t.Parallel()
	users := cri.IDMapping{HostUID: 100000, HostGID: 200000, Length: 65536}
	n := newNode(t, cri.Options{UserNamespaces: func(*v1.Pod) (cri.IDMapping, error) { return users, nil }})
	volume := t.TempDir()
	n.mounting(runtime.Mount{Name: "vol", HostPath: volume, ContainerPath: "/vol"})
	own := false
	p := pod("users", `echo $(cat /proc/self/uid_map /proc/self/gid_map); id -u; touch /vol/made && echo made
		echo last words >/dev/termination-log; head -n 1 /etc/hosts; echo end`)
	p.Spec.HostUsers = &own
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "vol", MountPath: "/vol"}}
	if !n.rt.Info().Handlers[""].UserNamespaces {
		assert.ErrorContains(t, n.rt.CheckPod(p), "spec.hostUsers (this runtime has no user namespaces)")
		t.Skip("refused as it must be; with user namespaces this needs runc 1.2 beside containerd 2")
	}
	n.start(p)
	c := n.ended(p)
	assert.Equal(t, "0 100000 65536 0 200000 65536\n0\nmade\n# Kubernetes-managed hosts file.\nend\n", n.output(c))
	assert.Equal(t, "last words\n", c.Message)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(volume, "made"), &st))
	assert.Equal(t, []uint32{0, 0}, []uint32{st.Uid, st.Gid}, "in volumes the pod's IDs are the node's")

	// Another agent keeps the users of the running pod.
	users = cri.IDMapping{HostUID: 300000, HostGID: 300000, Length: 65536}
	second := newNode(t, cri.Options{UserNamespaces: func(*v1.Pod) (cri.IDMapping, error) { return users, nil }})
	second.gen = n.gen
	second.startIn(c.Sandbox, p, 1)
	c = second.ended(p)
	assert.EqualValues(t, 1, c.RestartCount)
	assert.Contains(t, second.output(c), "0 100000 65536 0 200000 65536\n")
}

// A container can open the device node of a hostPath volume of a device type.
func TestHostPathDevice(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	const device = "/dev/loop-control"
	if _, err := os.Stat(device); err != nil {
		t.Skipf("this machine has no %s", device)
	}
	n.mounting(runtime.Mount{Name: "device", HostPath: device, ContainerPath: "/control"})
	p := pod("device", "(: </control) && echo opened; echo end")
	p.Spec.HostNetwork = true
	char := v1.HostPathCharDev
	p.Spec.Volumes = []v1.Volume{{Name: "device", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: device, Type: &char}}}}
	n.start(p)
	assert.Equal(t, "opened\nend\n", n.output(n.ended(p)))
}
