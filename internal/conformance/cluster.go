// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// nodeName is the only node of a cluster.
const nodeName = "conformance"

// startTimeout limits the start of an agent until its node is ready.
const startTimeout = 2 * time.Minute

// cluster is a control plane with one node.
type cluster struct {
	server     *apiservertest.Server
	containerd *containerdtest.Instance
	services   []*exec.Cmd
	registry   *http.Server // nil without one
	agent      *agent
	options    agentOptions
	dir        string // of the node
}

// newCluster starts a cluster with the images of upstream's suite.
func newCluster(ctx context.Context, o options, name, logs string) (*cluster, error) {
	images, err := makeImages(ctx, o.programs)
	if err != nil {
		return nil, err
	}
	return startCluster(ctx, o, name, logs, images)
}

// startCluster starts a cluster whose node is run by the named agent, and waits until the node is
// ready. Logs are written to the folder logs. The caller must call stop.
func startCluster(ctx context.Context, o options, name, logs string, images []containerdtest.Image) (_ *cluster, err error) {
	c := &cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	servers := apiservertest.Options{
		Dir: o.programs, Controllers: true, Address: machine, Flags: []string{"--kubelet-preferred-address-types=InternalIP"},
	}
	if o.node { // no taints: a node under pressure stays a node that the suite can use, as on upstream's own API server
		servers.Flags = append(servers.Flags, "--disable-admission-plugins=TaintNodesByCondition")
		servers.ManagerFlags = []string{"--controllers=*,-node-lifecycle-controller"}
	}
	c.server, err = apiservertest.New(ctx, servers)
	if err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "keelson-node-"); err != nil {
		return nil, err
	}
	containerd := containerdtest.Options{Images: images, Handlers: []string{"test-handler"}, HostPorts: true}
	if o.node {
		containerd.Parent = c.dir // images and pods share a disk
		if err := mountNode(c.dir); err != nil {
			return nil, err
		}
	}
	c.containerd, err = containerdtest.New(ctx, containerd)
	if err != nil {
		return nil, err
	}
	if o.eviction {
		if err := unix.Mount("keelson", c.dir, "tmpfs", 0, nodeFiles); err != nil {
			return nil, fmt.Errorf("the disk of the node: %w", err)
		}
	}
	// Users of user namespaces must reach volumes.
	if err := os.Chmod(c.dir, 0o711); err != nil {
		return nil, err
	}
	kubeconfig, err := c.server.WriteKubeconfig(c.server.NodeConfig(nodeName))
	if err != nil {
		return nil, err
	}
	if err := c.startNetwork(ctx, o, logs); err != nil {
		return nil, err
	}
	pressure, err := pressureOf(o)
	if err != nil {
		return nil, err
	}
	c.options = agentOptions{
		name: name, keelson: o.agent, flags: o.flags, programs: o.programs, dir: c.dir, log: filepath.Join(logs, name+".log"),
		kubeconfig: kubeconfig, authority: c.server.Authority(), endpoint: c.containerd.Endpoint(), address: machine.String(),
		pressure: pressure, node: o.node,
	}
	if o.node {
		if err := c.startRegistry(images); err != nil {
			return nil, err
		}
	}
	c.agent, err = startAgent(c.options)
	if err != nil {
		return nil, err
	}
	return c, c.waitNode(ctx)
}

// waitNode waits until the node is ready.
func (c *cluster) waitNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	core, err := c.server.Core()
	if err != nil {
		return err
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		node, err := core.Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err == nil && nodeReady(node) {
			return nil
		}
		if err == nil || apierrors.IsNotFound(err) {
			err = errors.New("the node is not ready")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w\n%s", err, c.agent.logTail())
		case <-c.agent.exited:
			return fmt.Errorf("the agent has ended\n%s", c.agent.logTail())
		case <-ticker.C:
		}
	}
}

func nodeReady(node *v1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition.Status == v1.ConditionTrue
		}
	}
	return false
}

// stop ends all processes of the cluster and removes its files.
func (c *cluster) stop() error {
	var errs []error
	if c.agent != nil {
		c.agent.stop()
	}
	for _, s := range c.services {
		_ = s.Process.Kill() // it may have ended
		_ = s.Wait()         // it ends by a signal
	}
	if c.registry != nil {
		errs = append(errs, c.registry.Close())
	}
	if c.containerd != nil {
		errs = append(errs, c.containerd.Stop())
	}
	if c.dir != "" {
		errs = append(errs, removeNode(c.dir))
	}
	if c.server != nil {
		errs = append(errs, c.server.Stop())
	}
	return errors.Join(errs...)
}
