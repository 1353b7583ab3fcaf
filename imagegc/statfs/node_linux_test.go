// SPDX-License-Identifier: Apache-2.0

package statfs_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/statfs"
	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// node is a containerd with a small disk to itself, and the seams of a collector over it.
type node struct {
	*containerdtest.Instance
	*containerdtest.Registry
	*statfs.Disk
}

// newNode starts a node with a disk of the given MiB. Its registry has images named app0:1, app1:1
// and so on, of about 2·(size+2) MiB on the disk each. twin0:1 is the same image as app0:1.
func newNode(t *testing.T, disk, images, size int) *node {
	t.Helper()
	dir := containerdtest.MountDisk(t, disk)
	instance := containerdtest.Start(t, containerdtest.Options{Parent: dir})
	var published []containerdtest.Image
	for i := range images {
		payload := strings.Repeat(rand.Text(), size<<20/26)
		for _, name := range []string{"app", "twin"} {
			published = append(published, containerdtest.Image{
				Name: fmt.Sprintf("%s%d:1", name, i), Cmd: []string{"sleep", "1000"}, Files: map[string]string{"/payload": payload},
			})
		}
	}
	return &node{instance, containerdtest.StartRegistry(t, instance, published...), statfs.Path(dir)}
}

// ListImages implements imagegc.ImageService.
func (n *node) ListImages(ctx context.Context) (out []imagegc.Image, err error) {
	answer, err := n.Images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	for _, i := range answer.GetImages() {
		out = append(out, imagegc.Image{
			ID: i.GetId(), RepoTags: i.GetRepoTags(), RepoDigests: i.GetRepoDigests(), Size: i.GetSize(), Pinned: i.GetPinned(),
		})
	}
	return out, err
}

// RemoveImage implements imagegc.ImageService.
func (n *node) RemoveImage(ctx context.Context, image imagegc.Image) error {
	_, err := n.Images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: image.ID}})
	return err
}

// ImagesInUse implements imagegc.InUse.
func (n *node) ImagesInUse(ctx context.Context) (out []string, err error) {
	answer, err := n.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	for _, c := range answer.GetContainers() {
		out = append(out, c.GetImageRef(), c.GetImage().GetImage())
	}
	return out, err
}

// imageID returns the ID of a present image, or "".
func (n *node) imageID(ctx context.Context, reference string) (string, error) {
	answer, err := n.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: reference}})
	return answer.GetImage().GetId(), err
}

// pull repeats a pull if the image was removed under an unknown name while containerd unpacked it.
func (n *node) pull(ctx context.Context, reference string) (string, error) {
	answer, err := n.Images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: reference}})
	for range 3 {
		if status.Code(err) != codes.NotFound {
			break
		}
		answer, err = n.Images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: reference}})
	}
	return answer.GetImageRef(), err
}

// usagePercent returns the usage of the disk.
func (n *node) usagePercent(t *testing.T) int {
	t.Helper()
	capacity, available, err := n.ImageFS(t.Context())
	require.NoError(t, err)
	return int(100 - available*100/capacity)
}

// sandbox is a pod without containers, on the host's network.
type sandbox struct {
	*node
	id     string
	config *runtimeapi.PodSandboxConfig
}

func (n *node) sandbox(t *testing.T, name string) *sandbox {
	t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Uid: name, Namespace: "imagegc"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
		}},
	}
	answer, err := n.Runtime.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	require.NoError(t, err)
	return &sandbox{n, answer.GetPodSandboxId(), config}
}

// create makes a container from a present image.
func (s *sandbox) create(ctx context.Context, name, image string) (id string, err error) {
	answer, err := s.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: s.id, SandboxConfig: s.config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: image},
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
			}},
		},
	})
	return answer.GetContainerId(), err
}

func (s *sandbox) start(ctx context.Context, id string) error {
	_, err := s.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

func (s *sandbox) remove(ctx context.Context, id string) error {
	_, err := s.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	return err
}
