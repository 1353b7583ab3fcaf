// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// machine is the runtime of an agent: containers of the node's World, and images.
type machine struct {
	*fake.Runtime
	node *Node
	off  atomic.Bool // the node was switched off; calls of this agent have no effect
}

var (
	_ runtime.Images          = (*machine)(nil)
	_ runtime.CompleteWatcher = (*machine)(nil)
	_ runtime.LosslessWatcher = (*machine)(nil)
)

// WatchesAll implements runtime.CompleteWatcher: World hints at each change that no call has brought
// about.
func (*machine) WatchesAll() bool { return true }

// losslessFactor lengthens the intervals of the agent that are a safety net for lost hints.
const losslessFactor = 240

// LosslessFactor implements runtime.LosslessWatcher: World loses no hint.
func (*machine) LosslessFactor() time.Duration { return losslessFactor }

func newMachine(n *Node) (*machine, error) {
	rt, err := fake.New(fake.Options{World: n.World})
	if err != nil {
		return nil, err
	}
	return &machine{Runtime: rt, node: n}, nil
}

var (
	errOff     = errors.New("cluster: the node is switched off")
	errNoImage = errors.New("cluster: no such image")
)

// idPrefix is the prefix of an image's name in its ID.
const idPrefix = "sha256:"

// RunSandbox implements runtime.Runtime.
func (m *machine) RunSandbox(ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
	if m.off.Load() {
		return "", errOff
	}
	return m.Runtime.RunSandbox(ctx, spec)
}

// CreateContainer implements runtime.Runtime. Without the image it fails, as in engines.
func (m *machine) CreateContainer(ctx context.Context, sandbox runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	if m.off.Load() {
		return runtime.ContainerID{}, errOff
	}
	if !m.node.store.has(strings.TrimPrefix(spec.ImageID, idPrefix)) {
		return runtime.ContainerID{}, errNoImage
	}
	return m.Runtime.CreateContainer(ctx, sandbox, spec)
}

// StartContainer implements runtime.Runtime.
func (m *machine) StartContainer(ctx context.Context, id runtime.ContainerID) error {
	if m.off.Load() {
		return errOff
	}
	return m.Runtime.StartContainer(ctx, id)
}

// ImageID implements runtime.Images.
func (m *machine) ImageID(_ context.Context, image string) (string, error) {
	if m.node.store.has(image) {
		return idPrefix + image, nil
	}
	return "", nil
}

// PullImage implements runtime.Images. Pulls do not compete for the bandwidth, and the pull of an image
// that is present takes no time.
func (m *machine) PullImage(ctx context.Context, image string, _ *runtime.ImageAuth) (string, error) {
	o := &m.node.cluster.opts
	if size := o.ImageSizes[image]; o.Bandwidth > 0 && size > 0 && !m.node.store.has(image) {
		if err := retry.Sleep(ctx, time.Duration(float64(size)/float64(o.Bandwidth)*float64(time.Second))); err != nil {
			return "", context.Cause(ctx)
		}
	}
	if m.off.Load() {
		return "", errOff
	}
	m.node.store.add(image)
	return idPrefix + image, nil
}

// prober returns a handler of probes: an instance is healthy after its Script.ReadyAfter.
func (m *machine) prober() prober.Handler {
	return prober.HandlerFunc(func(_ context.Context, t prober.Target) (prober.Outcome, error) {
		id, err := runtime.ParseContainerID(t.Instance.ID)
		if err != nil {
			return prober.Outcome{}, err
		}
		if m.Ready(id) {
			return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
		}
		return prober.Outcome{Verdict: prober.VerdictFailure, Output: "not ready"}, nil
	})
}

// imageStore has the names of the images on a node.
type imageStore struct {
	mu     sync.Mutex
	images map[string]bool
}

func newImageStore(present []v1.ContainerImage) *imageStore {
	s := &imageStore{images: map[string]bool{}}
	for _, image := range present {
		for _, name := range image.Names {
			if normal, err := runtime.NormalizeImage(name); err == nil { // other names are no references
				s.images[normal] = true
			}
		}
	}
	return s
}

func (s *imageStore) has(image string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.images[image]
}

func (s *imageStore) add(image string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[image] = true
}
