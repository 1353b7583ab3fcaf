// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/images"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// shelf is a node's images, and a registry. A pull takes a second.
type shelf struct {
	mu       sync.Mutex
	here     map[string]string // ID by reference
	registry map[string]string
	down     error
	only     string   // user with permission to pull; "": all users
	pulls    []string // reference and user
	used     map[runtime.ContainerID][]string
	lost     []string // images that were missing when used
	events   []string
	full     bool // the disk
}

// shelved is a fake runtime with images. Each agent has its own shelved. The shelf outlives the
// agents.
type shelved struct {
	*nodetest.Runtime
	*shelf
}

func (s *shelf) ImageID(_ context.Context, ref string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.here[ref], nil
}

func (s *shelf) PullImage(ctx context.Context, ref string, auth *runtime.ImageAuth) (string, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	user := "nobody"
	if auth != nil {
		user = auth.Username
	}
	s.pulls = append(s.pulls, ref+" "+user)
	if s.down != nil {
		return "", s.down
	}
	if s.only != "" && user != s.only {
		return "", errors.New("denied")
	}
	s.here[ref] = s.registry[ref]
	return s.here[ref], nil
}

// CreateContainer records the images of the container, which must be present.
func (s shelved) CreateContainer(ctx context.Context, sandbox runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	s.mu.Lock()
	ids := []string{spec.ImageID}
	for _, m := range spec.Mounts {
		if m.Image != "" {
			ids = append(ids, s.here[m.Image])
		}
	}
	for _, id := range ids {
		if !s.has(id) {
			s.lost = append(s.lost, spec.Name)
			s.mu.Unlock()
			return runtime.ContainerID{}, errors.New("no such image")
		}
	}
	s.mu.Unlock()
	id, err := s.Runtime.CreateContainer(ctx, sandbox, spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[id] = ids
	return id, err
}

// has reports whether an image is here. The lock is held.
func (s *shelf) has(id string) bool {
	for _, other := range s.here {
		if other == id {
			return true
		}
	}
	return false
}

func (s *shelf) ListImages(context.Context) (out []imagegc.Image, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags := make(map[string][]string)
	for ref, id := range s.here {
		tags[id] = append(tags[id], ref)
	}
	for id, refs := range tags {
		out = append(out, imagegc.Image{ID: id, RepoTags: refs, Size: 1})
	}
	return out, nil
}

func (s *shelf) RemoveImage(_ context.Context, image imagegc.Image) error {
	s.remove(image.ID)
	return nil
}

func (s *shelf) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, other := range s.here {
		if other == id {
			delete(s.here, ref)
		}
	}
}

func (s *shelf) ImageFS(context.Context) (capacity, available uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return 100, 0, nil
	}
	return 100, 99, nil
}

// Event records the events about pods.
func (s *shelf) Event(object apiruntime.Object, eventType, reason, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := object.(*v1.ObjectReference)
	if ref.Kind == "Node" && string(ref.UID) != ref.Name {
		reason += ", which kubectl describe node does not find"
	}
	s.events = append(s.events, fmt.Sprintf("%s %s %s %s", ref.Kind, ref.Name, eventType, reason))
}

// ConfigMap and Secret: there is one secret.
func (*shelf) ConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	return nil, errors.New("there is none")
}

func (*shelf) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	config, err := json.Marshal(map[string]any{"auths": map[string]any{"localhost": map[string]string{"username": name}}})
	return &v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: config}}, err
}

func newShelf() *shelf {
	return &shelf{here: map[string]string{}, registry: map[string]string{}, used: map[runtime.ContainerID][]string{}}
}

// on starts a node with the shelf and with image collection.
func (s *shelf) on(t *testing.T, sources ...podconfig.Source) *nodetest.Node {
	return nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
		o.Sources = append(o.Sources, sources...)
		o.Runtime = shelved{o.Runtime.(*nodetest.Runtime), s}
		o.Objects, o.Events = s, s
		o.ImageGC = &images.GC{
			Images: s, Disk: s, Interval: 10 * time.Second, Policy: imagegc.Policy{MinAge: -1},
			InUse: imagegc.InUseFunc(func(context.Context) ([]string, error) { return nil, nil }),
		}
	}})
}

// onShelf is a snapshot for a test.
type onShelf struct {
	here                map[string]string
	pulls, lost, events []string
}

func (s *shelf) now() onShelf {
	s.mu.Lock()
	defer s.mu.Unlock()
	return onShelf{maps.Clone(s.here), slices.Clone(s.pulls), slices.Clone(s.lost), slices.Clone(s.events)}
}

// pass advances time and completes the work due at its end.
func pass(n *nodetest.Node, d time.Duration) {
	time.Sleep(d)
	n.Settle()
}

// podWithTools has the image app:1, and tools:1 as a volume.
func podWithTools(name string, policy v1.PullPolicy) *v1.Pod {
	return nodetest.Pod(name, nodetest.Container("c"), func(p *v1.Pod) {
		p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "robot"}}
		p.Spec.Volumes = []v1.Volume{{Name: "tools", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "localhost/tools:1", PullPolicy: policy}}}}
		c := &p.Spec.Containers[0]
		c.Image, c.ImagePullPolicy = "localhost/app:1", v1.PullIfNotPresent
		c.VolumeMounts = []v1.VolumeMount{{Name: "tools", MountPath: "/tools"}}
	})
}

// The image of a volume is pulled with the pod's credentials and back-off, and failures are
// reported.
func TestImageVolumesArePulledAsImagesOfContainersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.registry["localhost/tools:1"], s.registry["localhost/app:1"] = "tools", "app"
		s.down = errors.New("registry is on fire")
		n := s.on(t)
		n.Apply(podWithTools("web", v1.PullIfNotPresent))
		pass(n, 25*time.Second)
		require.Empty(t, starts(n, "c"))
		require.LessOrEqual(t, len(s.now().pulls), 3, "10 s and 20 s between two pulls: %q", s.now().pulls)
		waiting := n.Status("web").ContainerStatuses[0].State.Waiting
		require.Contains(t, waiting.Message, `volume "tools"`)
		require.Contains(t, waiting.Message, "registry is on fire")
		for _, event := range []string{"Warning Failed", "Normal BackOff", "Normal Pulling", "Warning FailedMount"} {
			require.Contains(t, s.now().events, "Pod web "+event)
		}

		s.mu.Lock()
		s.down = nil
		s.mu.Unlock()
		pass(n, 3*time.Minute)
		require.Len(t, starts(n, "c"), 1)
		require.Equal(t, []string{"localhost/tools:1 robot", "localhost/app:1 robot"}, s.now().pulls[len(s.now().pulls)-2:])
		require.Empty(t, s.now().lost)
	})
}

// The node's own credentials are for images of volumes and of containers, after those
// of the pod.
func TestImagesArePulledWithTheNodesCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"auths": {"localhost": {"username": "node", "password": "p"}}}`), 0o600))
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.registry["localhost/tools:1"], s.registry["localhost/app:1"], s.only = "tools", "app", "node"
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			o.Runtime, o.Objects, o.RegistryAuthFile = shelved{o.Runtime.(*nodetest.Runtime), s}, s, file
		}})
		n.Apply(podWithTools("web", v1.PullIfNotPresent))
		pass(n, time.Minute)
		require.Len(t, starts(n, "c"), 1)
		require.Equal(t, []string{
			"localhost/tools:1 robot", "localhost/tools:1 node", "localhost/app:1 robot", "localhost/app:1 node",
		}, s.now().pulls)
	})
}

// An image that a user removed is pulled again once, for the next container with the volume.
func TestImageVolumeThatWasRemovedIsPulledAgain(t *testing.T) {
	for _, policy := range []v1.PullPolicy{v1.PullIfNotPresent, v1.PullAlways} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				s.registry["localhost/tools:1"], s.registry["localhost/app:1"] = "tools", "app"
				n := s.on(t)
				pod := podWithTools("web", policy)
				n.Apply(pod)
				pass(n, time.Minute)
				require.Len(t, s.now().pulls, 2)
				s.remove("tools")
				for i := range 2 {
					require.NoError(t, n.World.Kill(pod.UID, "c", 1))
					pass(n, time.Minute)
					require.Len(t, starts(n, "c"), i+2)
				}
				require.Empty(t, s.now().lost)
				require.Len(t, s.now().pulls, 3)
			})
		})
	}
}

// A restart of the agent makes no pod depend on a registry.
func TestImageVolumesSurviveARestartWithoutARegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.registry["localhost/tools:1"], s.registry["localhost/app:1"] = "tools", "app"
		n := s.on(t)
		pod := podWithTools("web", v1.PullAlways)
		n.Apply(pod)
		pass(n, time.Minute)
		s.mu.Lock()
		s.down = errors.New("registry is on fire")
		s.mu.Unlock()
		n.RestartAgent()
		require.NoError(t, n.World.Kill(pod.UID, "c", 1))
		pass(n, time.Minute)
		require.Len(t, starts(n, "c"), 2)
		require.Equal(t, v1.PodRunning, n.Status("web").Phase)
		require.Len(t, s.now().pulls, 2)
	})
}

// The image of a volume stays after its tag has moved to another image. It is removed after its
// last pod.
func TestImageOfAVolumeStaysWhenItsTagMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.registry["localhost/tools:1"], s.registry["localhost/app:1"] = "tools", "app"
		n := s.on(t)
		pod := podWithTools("web", v1.PullIfNotPresent)
		n.Apply(pod)
		pass(n, time.Minute)
		s.mu.Lock()
		s.here["localhost/tools:1"], s.here["localhost/none:1"], s.here["localhost/unused:1"] = "tools2", "tools", "unused"
		s.full = true
		s.mu.Unlock()
		pass(n, time.Minute)
		images := func() (ids []string) {
			list, _ := s.ListImages(t.Context())
			for _, i := range list {
				ids = append(ids, i.ID)
			}
			slices.Sort(ids)
			return ids
		}
		require.Equal(t, []string{"app", "tools", "tools2"}, images())
		n.Apply()
		pass(n, time.Minute)
		require.Empty(t, images())
		require.Contains(t, s.now().events, "Node node Warning FreeDiskSpaceFailed")
		require.Contains(t, s.now().events, "Node node Warning ImageGCFailed")
	})
}

// The image of a waiting pod stays, because a later pull may fail. The image of an ended pod is
// removed.
func TestImageOfAPodThatWaitsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		n := s.on(t)
		s.mu.Lock()
		s.here["localhost/app:1"], s.full, s.down = "app", true, errors.New("registry is on fire")
		s.mu.Unlock()
		n.World.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 0))
		pod := podWithTools("web", v1.PullIfNotPresent)
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		n.Apply(pod)
		pass(n, 10*time.Minute)
		n.RestartAgent()
		pass(n, time.Minute)
		require.Empty(t, starts(n, "c"))
		require.Contains(t, s.now().here, "localhost/app:1")
		s.mu.Lock()
		s.registry["localhost/tools:1"], s.down = "tools", nil
		s.mu.Unlock()
		pass(n, 10*time.Minute)
		require.Equal(t, v1.PodSucceeded, n.Status("web").Phase)
		require.Empty(t, s.now().lost)
		require.NotContains(t, s.now().here, "localhost/app:1")
	})
}

// No image is removed before every source has reported, up to a limit.
func TestImagesAreLeftAloneUntilItIsKnownWhatIsToRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.here["localhost/unused:1"], s.full = "unused", true
		n := s.on(t, podconfig.SourceFunc(podconfig.SourceHTTP, func(ctx context.Context, _ podconfig.Sink) error {
			<-ctx.Done()
			return nil
		}))
		pass(n, 100*time.Second)
		require.Contains(t, s.now().here, "localhost/unused:1")
		pass(n, time.Minute)
		require.Empty(t, s.now().here)
	})
}

// A pod with the image of a volume is not for a runtime without images.
func TestImageVolumesOfARuntimeWithoutImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodetest.New(t, nodetest.Options{})
		pod := podWithTools("web", v1.PullIfNotPresent)
		pod.Spec.ImagePullSecrets = nil
		n.Apply(pod)
		pass(n, time.Minute)
		require.Empty(t, starts(n, "c"))
		require.Equal(t, v1.PodFailed, n.Status("web").Phase)
		require.Contains(t, n.Status("web").Message, `("tools": the runtime has no images)`)
	})
}
