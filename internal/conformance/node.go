// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

const (
	// kubeletRoot is the folder in which upstream's specs of nodes look for sockets and volumes.
	kubeletRoot = "/var/lib/kubelet"
	// nodeDisk is the size of the disk of images and pods, in MiB. The file has only the blocks in use.
	nodeDisk = 8 << 10
	// registryAddress is the registry from which the specs pull.
	registryAddress = "127.0.0.1:5000"
	// samplePluginVariable names the program of the image sample-device-plugin.
	samplePluginVariable = "KEELSON_SAMPLE_DEVICE_PLUGIN"
	// samplePluginImage is an image in the manifests of the specs. The suite does not list the
	// image.
	samplePluginImage = registry + "e2e-test-images/sample-device-plugin:1.7"
)

// diskOf returns the file with the disk of the node in dir.
func diskOf(dir string) string { return dir + ".disk" }

// mountNode gives the node in dir a disk of its own, on which the folder of the agent is, too.
func mountNode(dir string) error {
	if err := containerdtest.LoopDisk(diskOf(dir), dir, nodeDisk); err != nil {
		return fmt.Errorf("the disk of the node: %w", err)
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	return unix.Mount(root, kubeletRoot, "", unix.MS_BIND, "")
}

// startRegistry serves the images to the container runtime, because the specs of nodes pull images
// that the node has already.
func (c *cluster) startRegistry(images []containerdtest.Image) error {
	served := slices.Clone(images)
	for i := range served {
		served[i].Name = strings.TrimPrefix(served[i].Name, registry)
		served[i].Aliases = slices.Clone(served[i].Aliases)
		for j := range served[i].Aliases {
			served[i].Aliases[j] = strings.TrimPrefix(served[i].Aliases[j], registry)
		}
	}
	r, err := containerdtest.NewRegistry(c.containerd, served...)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", registryAddress)
	if err != nil {
		return err
	}
	c.registry = &http.Server{Handler: r}
	go func() { _ = c.registry.Serve(listener) }() // until stop
	return c.containerd.Mirror(strings.TrimSuffix(registry, "/"), registryAddress)
}

// nodeCommand returns the command that runs upstream's suite for nodes. The suite reads and writes the
// agent's configuration file in its working folder.
func nodeCommand(ctx context.Context, o options, c *cluster, dir, focus string, skip []string) *exec.Cmd {
	args := []string{"--ginkgo.no-color", "--ginkgo.v", "--ginkgo.seed=1", "--ginkgo.timeout=" + suiteTimeout.String(), "--ginkgo.focus=" + focus}
	for _, pattern := range skip {
		args = append(args, "--ginkgo.skip="+pattern)
	}
	config := c.server.Config()
	args = append(args, "--host="+config.Host, "--bearer-token="+config.BearerToken, "--start-services=false", "--prepull-images=false",
		"--node-name="+nodeName, "--container-runtime-endpoint="+c.options.endpoint,
		"--report-dir="+dir, "--disable-log-dump")
	cmd := exec.CommandContext(ctx, filepath.Join(o.programs, "e2e_node.test"), args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + filepath.Join(c.dir, "bin") + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + c.dir, "TMPDIR=" + os.TempDir()}
	return cmd
}
