// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/images"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// The operations of agents on images, for Node.CrashAgentOn.
const (
	OpPullImage   fake.Op = "PullImage"
	OpRemoveImage fake.Op = "RemoveImage"
)

// ImageEvent is an operation on an image.
type ImageEvent struct {
	At    time.Duration
	Image string
	What  ImageAct
	Since time.Duration // for ImageAgain: arrival of the image
	Began time.Duration // for ImagePulled: begin of the pull
	Users []string      // for ImageRemoved: containers with the image
}

// ImageAct is the kind of an operation on an image.
type ImageAct string

// The operations on images.
const (
	ImagePulled  ImageAct = "image is pulled"
	ImageAgain   ImageAct = "image is pulled, and was here"
	ImageRefused ImageAct = "image is not pulled: the registry is away"
	ImageRemoved ImageAct = "image is removed"
	ImageMissing ImageAct = "image is missing for a container"
)

// depot has the images of a node, and is a registry with every image. It outlives the agents. Its
// disk is always full.
type depot struct {
	world *fake.World
	pull  time.Duration // duration of a pull

	mu struct {
		sync.Mutex
		here     map[string]time.Duration // arrival of each image
		creating map[*lease][]string      // images of containers whose creation is in progress
		log      []ImageEvent
		away     bool          // the registry refuses
		thaw     chan struct{} // not nil: the registry does not answer before the channel is closed
	}
}

func newDepot(world *fake.World, pull time.Duration) *depot {
	d := &depot{world: world, pull: pull}
	d.mu.here, d.mu.creating = make(map[string]time.Duration), make(map[*lease][]string)
	return d
}

func (d *depot) events() []ImageEvent {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clip(d.mu.log)
}

// The minimum age of a removed image, and the interval of the agents' collections.
const (
	imagesYoung    = time.Minute
	imagesLookedAt = 30 * time.Second
)

// supply gives the holder of a lease images and image collection.
func (d *depot) supply(o *node.Options) {
	rt, ok := o.Runtime.(*Runtime)
	if !ok {
		return
	}
	own := &imaged{rt, d}
	o.Runtime = own
	o.ImageGC = &images.GC{Images: own, InUse: own, Disk: own, Interval: imagesLookedAt, Policy: imagegc.Policy{MinAge: imagesYoung}}
}

// registry sets the state of the registry.
func (d *depot) registry(how string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.away = how == "down"
	if d.mu.thaw != nil {
		close(d.mu.thaw)
		d.mu.thaw = nil
	}
	if how == "hang" {
		d.mu.thaw = make(chan struct{})
	}
}

func (d *depot) state() (away bool, thaw <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.away, d.mu.thaw
}

// arrives records the end of a pull with its begin.
func (d *depot) arrives(image string, began time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, was := d.mu.here[image]
	what := ImagePulled
	if was && since < began {
		what = ImageAgain
	} else {
		d.mu.here[image] = d.world.Now()
	}
	d.mu.log = append(d.mu.log, ImageEvent{At: d.world.Now(), Image: image, What: what, Since: since, Began: began})
}

func (d *depot) note(image string, what ImageAct) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.log = append(d.mu.log, ImageEvent{At: d.world.Now(), Image: image, What: what})
}

// take records the begin of a container's creation, and reports whether its image is present.
func (d *depot) take(l *lease, image string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.mu.here[image]; !ok {
		return false
	}
	d.mu.creating[l] = append(d.mu.creating[l], image)
	return true
}

func (d *depot) give(l *lease, image string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.mu.creating[l], image); i >= 0 {
		d.mu.creating[l] = slices.Delete(slices.Clone(d.mu.creating[l]), i, i+1)
	}
}

// remove removes an image for the holder of a lease.
func (d *depot) remove(l *lease, image string) {
	var users []string
	for _, pod := range d.world.Truth() {
		for i := range pod.Containers {
			if c := &pod.Containers[i]; c.Image == image {
				users = append(users, c.ID.ID)
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.mu.creating[l], image) {
		users = append(users, "one that is being created")
	}
	if _, ok := d.mu.here[image]; ok {
		delete(d.mu.here, image)
		d.mu.log = append(d.mu.log, ImageEvent{At: d.world.Now(), Image: image, What: ImageRemoved, Users: users})
	}
}

// neverHas reports whether the image of a container is not here, and may not be pulled.
func (d *depot) neverHas(c *v1.Container) bool {
	return d != nil && c.ImagePullPolicy == v1.PullNever && !slices.Contains(d.list(), c.Image)
}

func (d *depot) list() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for image := range d.mu.here {
		all = append(all, image)
	}
	slices.Sort(all)
	return all
}

// imaged is a Runtime with images.
type imaged struct {
	*Runtime
	depot *depot
}

var _ runtime.Images = (*imaged)(nil)

// idPrefix is the prefix of an image's name in its ID.
const idPrefix = "sha256:"

// ImageID implements runtime.Images.
func (r *imaged) ImageID(ctx context.Context, image string) (string, error) {
	return through(ctx, r.lease, fake.Call{}, func(context.Context) (string, error) {
		if slices.Contains(r.depot.list(), image) {
			return idPrefix + image, nil
		}
		return "", nil
	})
}

var errRegistryAway = fmt.Errorf("registry: connection refused: %w", runtime.ErrRegistryUnavailable)

// PullImage implements runtime.Images.
func (r *imaged) PullImage(ctx context.Context, image string, _ *runtime.ImageAuth) (string, error) {
	return through(ctx, r.lease, fake.Call{Op: OpPullImage}, func(ctx context.Context) (string, error) {
		d, began := r.depot, r.depot.world.Now()
		away, thaw := d.state()
		if thaw != nil {
			select {
			case <-thaw:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		if d.pull > 0 {
			timer := time.NewTimer(d.pull)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		if away {
			d.note(image, ImageRefused)
			return "", errRegistryAway
		}
		d.arrives(image, began)
		return idPrefix + image, nil
	})
}

var errNoImage = errors.New("no such image")

// CreateContainer implements runtime.Runtime. Without the image it fails, as in engines.
func (r *imaged) CreateContainer(ctx context.Context, sandbox runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	if !r.depot.take(r.lease, spec.Image) {
		if !r.lease.isDead() {
			r.depot.note(spec.Image, ImageMissing)
		}
		return runtime.ContainerID{}, errNoImage
	}
	defer r.depot.give(r.lease, spec.Image)
	return r.Runtime.CreateContainer(ctx, sandbox, spec)
}

// ListImages implements imagegc.ImageService.
func (r *imaged) ListImages(ctx context.Context) ([]imagegc.Image, error) {
	return through(ctx, r.lease, fake.Call{}, func(context.Context) (all []imagegc.Image, _ error) {
		for _, image := range r.depot.list() {
			all = append(all, imagegc.Image{ID: idPrefix + image, RepoTags: []string{image}, Size: 1})
		}
		return all, nil
	})
}

// RemoveImage implements imagegc.ImageService.
func (r *imaged) RemoveImage(ctx context.Context, image imagegc.Image) error {
	return r.only(ctx, fake.Call{Op: OpRemoveImage}, func(context.Context) error {
		for _, name := range image.RepoTags {
			r.depot.remove(r.lease, name)
		}
		return nil
	})
}

// ImagesInUse implements imagegc.InUse.
func (r *imaged) ImagesInUse(ctx context.Context) (names []string, err error) {
	pods, err := r.List(ctx, runtime.ListOptions{})
	for _, pod := range pods {
		for i := range pod.Containers {
			names = append(names, pod.Containers[i].Image)
		}
	}
	return names, err
}

// ImageFS implements imagegc.DiskUsage.
func (*imaged) ImageFS(context.Context) (capacity, available uint64, err error) { return 100, 0, nil }

// uncollected checks that after the end of all pods no image is left.
func (p *player) uncollected() (errs []error) {
	if p.depot == nil {
		return nil
	}
	for _, image := range p.depot.list() {
		errs = append(errs, fmt.Errorf("no pod has image %s, and it is left on a full disk", image))
	}
	return errs
}
