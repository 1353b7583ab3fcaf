// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
)

// folders is a plugin with minimal work: each volume is a folder with a file.
type folders struct{}

func (folders) Name() string                     { return "example.com/folders" }
func (folders) Supports(volumemanager.Spec) bool { return true }

func (folders) SetUp(_ context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	if err := os.MkdirAll(m.Dir(), 0o750); err != nil {
		return volumemanager.Mounted{}, err
	}
	return volumemanager.Mounted{Path: m.Dir()}, os.WriteFile(filepath.Join(m.Dir(), "content"), nil, 0o600)
}

func (folders) TearDown(_ context.Context, u volumemanager.Unmount) error {
	return os.RemoveAll(u.Dir())
}

// naive is the reference of the benchmarks, in the kubelet's shape: every 100 ms a loop collects
// the volumes needed by all pods and compares them with the mounted volumes; waiting calls poll
// every 300 ms. It keeps no records, and does less in each round than the kubelet.
type naive struct {
	root   string
	plugin folders
	ops    sync.WaitGroup

	mu     sync.Mutex
	pods   map[types.UID]*v1.Pod
	actual map[volumemanager.Place]naiveState
}

// naiveState is the mount state of a volume.
type naiveState uint8

const (
	naiveNothing naiveState = iota
	naiveBusy
	naiveMounted
)

func newNaive(root string) *naive {
	return &naive{root: root, pods: map[types.UID]*v1.Pod{}, actual: map[volumemanager.Place]naiveState{}}
}

func (n *naive) run(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			n.ops.Wait()
			return
		case <-ticker.C:
			n.round(ctx)
		}
	}
}

func (n *naive) round(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	desired := map[volumemanager.Place]*v1.Pod{}
	for _, pod := range n.pods {
		for _, p := range n.places(pod) {
			desired[p] = pod
		}
	}
	for p, pod := range desired {
		if n.actual[p] == naiveNothing {
			n.operate(p, naiveMounted, func() error {
				_, err := n.plugin.SetUp(ctx, volumemanager.Mount{Place: p, Pod: pod})
				return err
			})
		}
	}
	for p, state := range n.actual {
		if desired[p] == nil && state == naiveMounted {
			n.operate(p, naiveNothing, func() error { return n.plugin.TearDown(ctx, volumemanager.Unmount{Place: p}) })
		}
	}
}

// operate runs op in the background. The lock is held.
func (n *naive) operate(p volumemanager.Place, then naiveState, op func() error) {
	before := n.actual[p]
	n.actual[p] = naiveBusy
	n.ops.Go(func() {
		err := op()
		n.mu.Lock()
		defer n.mu.Unlock()
		switch {
		case err != nil:
			n.actual[p] = before
		case then == naiveNothing:
			delete(n.actual, p)
		default:
			n.actual[p] = then
		}
	})
}

func (n *naive) places(pod *v1.Pod) []volumemanager.Place {
	var places []volumemanager.Place
	for i := range pod.Spec.Volumes {
		places = append(places, volumemanager.Place{
			Root: n.root, PodUID: pod.UID, Plugin: n.plugin.Name(), Inner: pod.Spec.Volumes[i].Name,
		})
	}
	return places
}

func (n *naive) mount(_ context.Context, pod *v1.Pod) error {
	n.mu.Lock()
	n.pods[pod.UID] = pod
	n.mu.Unlock()
	n.poll(pod, naiveMounted)
	return nil
}

func (n *naive) unmount(_ context.Context, pod *v1.Pod) error {
	n.mu.Lock()
	delete(n.pods, pod.UID)
	n.mu.Unlock()
	n.poll(pod, naiveNothing)
	return nil
}

func (n *naive) poll(pod *v1.Pod, want naiveState) {
	ticker := time.NewTicker(300 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		all := true
		n.mu.Lock()
		for _, p := range n.places(pod) {
			all = all && n.actual[p] == want
		}
		n.mu.Unlock()
		if all {
			return
		}
	}
}
