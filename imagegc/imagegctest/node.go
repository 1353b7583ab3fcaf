// SPDX-License-Identifier: Apache-2.0

package imagegctest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-dev/keelson/imagegc"
)

// ErrNoImage is returned for a container or pull of an unknown image.
var ErrNoImage = errors.New("image not found")

// Image is an image in a registry.
type Image struct {
	Tags   []string          // references by tag: "registry.example/app:1"
	Layers map[string]uint64 // bytes by layer; layers with the same name are shared
	Pinned bool
}

// ID returns the image ID derived from the layers. The same image under two tags has a single ID.
func (i Image) ID() string {
	text := strings.Join(slices.Sorted(maps.Keys(i.Layers)), ",")
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Digest returns the digest of the image's manifest, "sha256:…".
func (i Image) Digest() string {
	sum := sha256.Sum256([]byte("manifest of " + i.ID()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Call is a call by a collector or an agent.
type Call struct {
	Method string // ListImages, RemoveImage, ImagesInUse, ImageFS, Status, Pull, Create
	Image  string // the image ID or reference in the call
}

// Lies replace true answers of a node. A nil func keeps the true answer.
type Lies struct {
	List  func([]imagegc.Image) []imagegc.Image
	InUse func([]string) []string
	Disk  func(capacity, available uint64) (uint64, uint64)
}

// Node implements imagegc.ImageService, InUse and DiskUsage. Its methods are safe for concurrent
// use.
type Node struct {
	// Hook, if not nil, is called at the beginning of every method, without a lock held. Hook may
	// wait. If Hook returns an error, the method returns the error. Set Hook before using the node.
	Hook func(context.Context, Call) error

	mu struct {
		sync.Mutex
		capacity   uint64
		filled     uint64
		registry   map[string]Image    // by tag
		present    map[string]*present // by ID
		containers map[string]string   // image ID by container name
		references map[string]string   // reference by container name
		lies       Lies
		journal    []Call
		violations []string
	}
}

type present struct {
	image Image
	tags  []string
}

// New returns a node with a disk of capacity bytes and no images.
func New(capacity uint64) *Node {
	n := &Node{}
	n.mu.capacity = capacity
	n.mu.registry, n.mu.present = make(map[string]Image), make(map[string]*present)
	n.mu.containers, n.mu.references = make(map[string]string), make(map[string]string)
	return n
}

func (n *Node) hook(ctx context.Context, c Call) error {
	n.mu.Lock()
	n.mu.journal = append(n.mu.journal, c)
	n.mu.Unlock()
	if n.Hook != nil {
		if err := n.Hook(ctx, c); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Publish puts an image into the registry. It moves a tag from an earlier image.
func (n *Node) Publish(image Image) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, tag := range image.Tags {
		n.mu.registry[tag] = image
	}
}

// Add puts an image into the registry and onto the node.
func (n *Node) Add(images ...Image) {
	for _, image := range images {
		n.Publish(image)
		n.mu.Lock()
		for _, tag := range image.Tags {
			n.tag(image, tag)
		}
		n.mu.Unlock()
	}
}

// tag adds an image under a tag, and removes the tag from other images. The caller holds the lock.
func (n *Node) tag(image Image, tag string) {
	for _, other := range n.mu.present {
		other.tags = slices.DeleteFunc(other.tags, func(t string) bool { return t == tag })
	}
	id := image.ID()
	p := n.mu.present[id]
	if p == nil {
		p = &present{image: image}
		n.mu.present[id] = p
	}
	p.tags = append(p.tags, tag)
}

// Fill sets the bytes on the disk outside images.
func (n *Node) Fill(bytes uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.filled = bytes
}

// Lie replaces the node's answers from now on.
func (n *Node) Lie(l Lies) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.lies = l
}

// find returns the present image with a tag, digest or ID. The caller holds the lock.
func (n *Node) find(reference string) *present {
	for id, p := range n.mu.present {
		if id == reference || slices.Contains(p.tags, reference) || strings.HasSuffix(reference, "@"+p.image.Digest()) {
			return p
		}
	}
	return nil
}

// used returns the bytes of all present layers. The caller holds the lock.
func (n *Node) used() (sum uint64) {
	layers := make(map[string]uint64)
	for _, p := range n.mu.present {
		maps.Copy(layers, p.image.Layers)
	}
	for _, size := range layers {
		sum += size
	}
	return sum
}

// violation records a violation. The caller holds the lock.
func (n *Node) violation(format string, args ...any) {
	n.mu.violations = append(n.mu.violations, fmt.Sprintf(format, args...))
}

// Violations returns the wrong removals, and the containers that Run could not create.
func (n *Node) Violations() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.mu.violations)
}

// Calls returns the calls of a method so far, in order.
func (n *Node) Calls(method string) (out []Call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.mu.journal {
		if c.Method == method {
			out = append(out, c)
		}
	}
	return out
}

// Tags returns the tags of the present images, sorted.
func (n *Node) Tags() (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.mu.present {
		out = append(out, p.tags...)
	}
	slices.Sort(out)
	return out
}
