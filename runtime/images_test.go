// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// registry adds images to a fake runtime. A pull takes a second.
type registry struct {
	*fake.Runtime

	mu        sync.Mutex
	here      map[string]bool
	failWith  []error // of the next pulls
	pulls     []string
	parallel  int
	most      int
	abandoned int
	inspect   error
	started   []string // IDs of the images of all containers
}

func (r *registry) CreateContainer(ctx context.Context, sandbox runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	r.mu.Lock()
	r.started = append(r.started, spec.ImageID)
	r.mu.Unlock()
	return r.Runtime.CreateContainer(ctx, sandbox, spec)
}

func (r *registry) ImageID(_ context.Context, image string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inspect != nil {
		return "", r.inspect
	}
	if r.here[image] {
		return "sha256:" + image, nil
	}
	return "", nil
}

func (r *registry) PullImage(ctx context.Context, image string, auth *runtime.ImageAuth) (string, error) {
	r.mu.Lock()
	who := "anonymous"
	if auth != nil {
		who = auth.Username
	}
	r.pulls = append(r.pulls, image+" "+who)
	r.parallel++
	r.most = max(r.most, r.parallel)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.parallel--
		r.mu.Unlock()
	}()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		r.mu.Lock()
		r.abandoned++
		r.mu.Unlock()
		return "", context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failWith) > 0 {
		err := r.failWith[0]
		r.failWith = r.failWith[1:]
		if err != nil {
			return "", err
		}
	}
	r.here[image] = true
	return "sha256:" + image, nil
}

// withImages gives the node a runtime with images.
func (n *node) withImages(opts runtime.Options) *registry {
	n.Helper()
	r := &registry{Runtime: n.rt, here: map[string]bool{}}
	generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
	require.NoError(n, err)
	opts.Runtime, opts.Generator, opts.Events = r, generator, n.events
	n.manager, err = runtime.New(opts)
	require.NoError(n, err)
	return r
}

// Nothing is kept of a pod that is removed, whatever happened to it.
func TestNothingIsKeptOfRemovedPods(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{})
		pod := newPod(initial("i"), regular("a", "b"))
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		n.world.Script(fake.Target{Container: "i"}, fake.Exit(time.Second, 0))
		n.world.Script(fake.Target{Container: "a"}, fake.Exit(time.Second, 0))
		n.world.Script(fake.Target{Container: "b"}, fake.Exit(time.Second, 1))
		for range 10 {
			n.sync(pod)
			n.pass(time.Second)
		}
		require.NoError(n, n.world.SandboxLosesIP(pod.UID))
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Times: 2, Err: errors.New("broken")})
		n.sync(pod)
		n.sync(pod)
		r.failWith = []error{errors.New("401")}
		pod.Spec.Containers[1].Image, pod.Spec.Containers[1].ImagePullPolicy = "another", v1.PullAlways
		for range 10 {
			n.sync(pod)
			n.pass(time.Second)
		}
		require.NotZero(n, n.manager.Kept())
		require.NoError(n, n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod}).Err())
		require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID))
		require.Zero(n, n.manager.Kept())
	})
}

func TestPullPolicies(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  v1.PullPolicy
		here    bool
		inspect error
		reason  error
		pulls   int
	}{
		"Always pulls what is here":         {policy: v1.PullAlways, here: true, pulls: 1},
		"Always pulls what is not":          {policy: v1.PullAlways, pulls: 1},
		"Always does not look first":        {policy: v1.PullAlways, inspect: errors.New("broken"), pulls: 1},
		"IfNotPresent uses what is here":    {policy: v1.PullIfNotPresent, here: true},
		"IfNotPresent pulls what is not":    {policy: v1.PullIfNotPresent, pulls: 1},
		"IfNotPresent has to know":          {policy: v1.PullIfNotPresent, inspect: errors.New("broken"), reason: runtime.ErrImageInspect},
		"Never uses what is here":           {policy: v1.PullNever, here: true},
		"Never does not pull":               {policy: v1.PullNever, reason: runtime.ErrImageNeverPull},
		"Never has to know":                 {policy: v1.PullNever, inspect: errors.New("broken"), reason: runtime.ErrImageInspect},
		"an unset policy pulls what is not": {policy: "", pulls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				r := n.withImages(runtime.Options{})
				pod := newPod()
				pod.Spec.Containers[0].ImagePullPolicy = tc.policy
				r.here["img-c:latest"], r.inspect = tc.here, tc.inspect
				result := n.sync(pod)
				if tc.reason != nil {
					require.ErrorIs(n, result.Err(), tc.reason)
					return
				}
				require.NoError(n, result.Err())
				require.LessOrEqual(n, len(r.pulls), max(tc.pulls, 1))
				require.Equal(n, tc.pulls > 0, len(r.pulls) > 0)
				require.Equal(n, runtime.StateRunning, result.Status.Latest("c").State)
			})
		})
	}
}

func TestImageNames(t *testing.T) {
	for image, want := range map[string]string{
		"busybox":               "busybox:latest",
		"busybox:1":             "busybox:1",
		"localhost:5000/a/b":    "localhost:5000/a/b:latest",
		"localhost:5000/a/b:v1": "localhost:5000/a/b:v1",
		"Registry.Example/a":    "Registry.Example/a:latest",
		"a@sha256:0123456789abcdef0123456789abcdef":   "a@sha256:0123456789abcdef0123456789abcdef",
		"a:1@sha256:0123456789abcdef0123456789abcdef": "a:1@sha256:0123456789abcdef0123456789abcdef",
		"":                      "",
		"Upper":                 "",
		"a b":                   "",
		"a:":                    "",
		"a//b":                  "",
		"https://example.com/a": "",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef": "",
	} {
		got, err := runtime.NormalizeImage(image)
		require.Equal(t, want, got, image)
		require.Equal(t, want == "", err != nil, image)
	}
	inBubble(t, func(n *node) {
		n.withImages(runtime.Options{})
		pod := newPod()
		pod.Spec.Containers[0].Image = "Not/Valid Image"
		require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrInvalidImageName)
	})
}

func TestFailedPullsBackOff(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{})
		pod := newPod()
		pod.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
		down := fmt.Errorf("connection refused: %w", runtime.ErrRegistryUnavailable)
		r.failWith = []error{down, down, down}
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Latency: 2 * time.Second})
		require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrRegistryUnavailable)
		r.failWith = []error{down, nil}
		result := n.sync(pod)
		require.ErrorIs(n, result.Err(), runtime.ErrImagePullBackOff)
		require.ErrorContains(n, result.Err(), "connection refused", "and says what went wrong")
		at, ok := result.RetryAt()
		require.True(n, ok)
		require.Equal(n, 9*time.Second, time.Until(at), "the pull failed a second before the sandbox was there")
		time.Sleep(time.Until(at))
		require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrRegistryUnavailable)
		at, _ = n.sync(pod).RetryAt()
		require.Equal(n, 20*time.Second, time.Until(at))
		time.Sleep(time.Until(at))
		require.NoError(n, n.sync(pod).Err())
		require.Contains(n, n.events.lines, "Normal BackOff spec.containers{c}")
	})
}

// Two pods with the same image share a download, also if a pod gives up. Pulls of different images
// are bounded (kubernetes#109673: serial by default).
func TestUpstream109673PullsAreParallelBoundedAndShared(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{})
		began := time.Now()
		ctx, cancel := context.WithCancel(n.Context())
		time.AfterFunc(time.Millisecond, cancel)
		var wg sync.WaitGroup
		for i := range 4 {
			pod := newPod(regular("a", "b", "c", "d", "e", "f", "g", "h"))
			pod.UID = types.UID(fmt.Sprint("uid-", i))
			own := n.Context()
			if i == 0 {
				own = ctx
			}
			wg.Go(func() { n.manager.SyncPod(own, runtime.SyncRequest{Pod: pod}) })
		}
		wg.Wait()
		require.Equal(n, 2*time.Second, time.Since(began), "eight images, four at a time")
		require.Equal(n, 4, r.most)
		require.Len(n, r.pulls, 8, "each image once")
	})
}

// Eight images of a pod are pulled as many at a time as the option says. A pull takes a second.
func TestConcurrentPullsAreLimited(t *testing.T) {
	for limit, want := range map[int]time.Duration{0: 2 * time.Second, 1: 8 * time.Second, 3: 3 * time.Second, math.MaxInt: time.Second} {
		inBubble(t, func(n *node) {
			n.withImages(runtime.Options{MaxConcurrentPulls: limit})
			began := time.Now()
			require.NoError(n, n.sync(newPod(regular("a", "b", "c", "d", "e", "f", "g", "h"))).Err())
			require.Equal(n, want, time.Since(began), "at most %d", limit)
		})
	}
}

// A pod that is deleted during a pull ends the pull (kubernetes#26300, #125050).
func TestUpstream26300DeletionEndsThePull(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{})
		ctx, cancel := context.WithCancel(n.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		began := time.Now()
		result := n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: newPod()})
		require.ErrorIs(n, result.Err(), context.Canceled)
		require.Equal(n, 500*time.Millisecond, time.Since(began))
		require.Equal(n, 1, r.abandoned)
		require.Zero(n, n.world.Count(fake.Target{Op: fake.OpCreateContainer}))
	})
}

func TestImagesArePulledWhileTheSandboxIsMade(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Latency: time.Second})
		pod := newPod(regular("a", "b"))
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].ImagePullPolicy = v1.PullIfNotPresent
		}
		began := time.Now()
		require.NoError(n, n.sync(pod).Err())
		require.Equal(n, time.Second, time.Since(began), "two pulls and a sandbox, all at once")
		require.Len(n, r.pulls, 2)
	})
}

func TestCredentialsAreTriedInOrderAndNeverShown(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{Keyring: func(context.Context, *v1.Pod, string) ([]runtime.ImageAuth, error) {
			return []runtime.ImageAuth{{Username: "old", Password: "hunter2"}, {Username: "new", Password: "hunter3"}}, nil
		}})
		pod := newPod()
		pod.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
		r.here["img-c:latest"] = true // nothing to prefetch
		r.failWith = []error{errors.New("denied")}
		require.NoError(n, n.sync(pod).Err())
		require.Equal(n, []string{"img-c:latest old", "img-c:latest new"}, r.pulls)
	})
	auth := runtime.ImageAuth{Username: "u", Password: "hunter2"}
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", auth, auth, auth, &auth), "hunter2")
}
