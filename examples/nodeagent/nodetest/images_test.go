// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/images"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// album has the images of a node whose disk is always full.
type album struct {
	mu      sync.Mutex
	images  map[string]bool
	removed map[string]time.Duration
	began   time.Time
}

// gone returns when which images were removed.
func (a *album) gone() map[string]time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.removed)
}

func (a *album) ListImages(context.Context) (all []imagegc.Image, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.images {
		all = append(all, imagegc.Image{ID: "sha256:" + name, RepoTags: []string{name}, Size: 1})
	}
	return all, nil
}

func (a *album) RemoveImage(_ context.Context, image imagegc.Image) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.images, image.RepoTags[0])
	a.removed[image.RepoTags[0]] = time.Since(a.began)
	return nil
}

func (a *album) ImageFS(context.Context) (capacity, available uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return 100, uint64(len(a.removed)), nil
}

// The image volume of a pod stays until the pod has ended.
func TestTheImageOfAVolumeStaysUntilItsPodHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const volume, unused = "localhost/volume:1", "localhost/unused:1"
		a := &album{images: map[string]bool{volume: true, unused: true}, removed: map[string]time.Duration{}, began: time.Now()}
		there := newShelf()
		there.here[volume], there.here["localhost/c:1"] = "sha256:"+volume, "sha256:c"
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			o.Runtime = shelved{o.Runtime.(*nodetest.Runtime), there}
			o.ImageGC = &images.GC{Images: a, InUse: imagegc.InUseFunc(func(context.Context) ([]string, error) { return nil, nil }), Disk: a, Policy: imagegc.Policy{MinAge: time.Second}, Interval: 10 * time.Second}
		}})
		n.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 2 * time.Minute})
		n.Apply(nodetest.Pod("web", nodetest.Container("c"), nodetest.GracePeriod(300), func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: volume, PullPolicy: v1.PullIfNotPresent}}}}
		}))
		time.Sleep(time.Minute)
		n.Settle()
		require.Len(t, starts(n, "c"), 1)
		require.Contains(t, a.gone(), unused)
		n.Apply()
		time.Sleep(time.Minute)
		require.NotContains(t, a.gone(), volume)
		time.Sleep(5 * time.Minute)
		n.Settle()
		require.GreaterOrEqual(t, a.gone()[volume], 3*time.Minute)
	})
}

// On a node without images, the image of a pod is pulled while the collector runs. An absent image
// that only a pod wants is no contradiction of the empty list of images.
func TestCollectionBesideTheFirstPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &album{removed: map[string]time.Duration{}, began: time.Now()}
		core, log := observer.New(zap.WarnLevel)
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			o.Logger = zap.New(core)
			o.Runtime = shelved{o.Runtime.(*nodetest.Runtime), newShelf()}
			o.ImageGC = &images.GC{Images: a, InUse: imagegc.InUseFunc(func(context.Context) ([]string, error) { return nil, nil }), Disk: roomy{}, Interval: 100 * time.Millisecond}
		}})
		n.Apply(nodetest.Pod("web", nodetest.Container("c")))
		n.Settle()
		time.Sleep(time.Minute)
		require.Empty(t, log.All())
	})
}

// roomy is an empty disk.
type roomy struct{}

func (roomy) ImageFS(context.Context) (capacity, available uint64, err error) { return 100, 100, nil }
