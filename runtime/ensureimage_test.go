// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// remover removes an image between its inspection and its use, a given number of times, like a
// collector without knowledge of the pod.
type remover struct {
	*registry
	losses int
	found  []string
	err    error
}

func (r *remover) Found(_ context.Context, image, id string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = append(r.found, image+" "+id)
	if r.err != nil {
		return false, r.err
	}
	if r.losses == 0 {
		return true, nil
	}
	r.losses--
	delete(r.here, image)
	return false, nil
}

func TestEnsureImageFollowsThePolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		image   string
		policy  v1.PullPolicy
		here    bool
		inspect error
		reason  error
		pulls   int
	}{
		"Always pulls what is here":      {"tools", v1.PullAlways, true, nil, nil, 1},
		"IfNotPresent uses what is here": {"tools", v1.PullIfNotPresent, true, nil, nil, 0},
		"IfNotPresent pulls what is not": {"tools", v1.PullIfNotPresent, false, nil, nil, 1},
		"Never does not pull":            {"tools", v1.PullNever, false, nil, runtime.ErrImageNeverPull, 0},
		"it has to know":                 {"tools", v1.PullNever, true, errors.New("broken"), runtime.ErrImageInspect, 0},
		"the name has to be one":         {"Not/Valid Image", v1.PullAlways, false, nil, runtime.ErrInvalidImageName, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				r := n.withImages(runtime.Options{})
				r.here["tools:latest"], r.inspect = tc.here, tc.inspect
				id, err := n.manager.EnsureImage(n.Context(), runtime.ImageRequest{Pod: newPod(), Image: tc.image, Policy: tc.policy})
				require.Len(n, r.pulls, tc.pulls)
				if tc.reason == nil {
					require.NoError(n, err)
					require.Equal(n, "sha256:tools:latest", id)
					return
				}
				require.ErrorIs(n, err, tc.reason)
				require.ErrorContains(n, err, tc.reason.Error())
			})
		})
	}
	inBubble(t, func(n *node) {
		_, err := n.manager.EnsureImage(n.Context(), runtime.ImageRequest{Pod: newPod(), Image: "tools"})
		require.ErrorIs(n, err, runtime.ErrUnsupported, "a runtime without images")
		n.withImages(runtime.Options{})
		_, cause := runtime.NormalizeImage("Tools")
		require.Error(n, cause)
		_, err = n.manager.EnsureImage(n.Context(), runtime.ImageRequest{Pod: newPod(), Image: "Tools"})
		require.ErrorContains(n, err, cause.Error())
	})
}

// Volumes and containers of a pod share the back-off and the credentials.
func TestEnsureImageSharesBackoffAndCredentialsWithContainers(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{Keyring: func(_ context.Context, pod *v1.Pod, image string) ([]runtime.ImageAuth, error) {
			require.Equal(n, "tools:1", image)
			return []runtime.ImageAuth{{Username: "of-" + pod.Name}}, nil
		}})
		pod := newPod(regular("a"))
		pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = "tools:1", v1.PullIfNotPresent
		r.failWith = []error{errors.New("401")}
		request := runtime.ImageRequest{Pod: pod, Image: "tools:1", Policy: v1.PullIfNotPresent}
		_, err := n.manager.EnsureImage(n.Context(), request)
		require.ErrorIs(n, err, runtime.ErrImagePull)
		require.ErrorContains(n, err, "401")
		_, err = n.manager.EnsureImage(n.Context(), request)
		require.ErrorIs(n, err, runtime.ErrImagePullBackOff)
		result := n.sync(pod)
		require.ErrorIs(n, result.Err(), runtime.ErrImagePullBackOff)
		at, _ := result.RetryAt()
		require.Equal(n, 10*time.Second, time.Until(at))
		time.Sleep(time.Until(at))
		_, err = n.manager.EnsureImage(n.Context(), request)
		require.NoError(n, err)
		require.NoError(n, n.sync(pod).Err())
		require.Equal(n, []string{"tools:1 of-" + pod.Name, "tools:1 of-" + pod.Name}, r.pulls)
		require.Contains(n, n.events.lines, "Warning Failed", "the event is the pod's")
		require.Contains(n, n.events.lines, "Normal BackOff")
	})
}

// Two volumes of a pod with the same image share an attempt. Volumes of two pods share a download.
// A caller that gives up is not waited for.
func TestEnsureImageIsOneAttempt(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{})
		pod, other := newPod(), newPod()
		other.UID = "other"
		r.failWith = []error{errors.New("401"), nil}
		var wg sync.WaitGroup
		reasons := make([]error, 3)
		for i := range reasons {
			wg.Go(func() {
				_, err := n.manager.EnsureImage(n.Context(), runtime.ImageRequest{Pod: pod, Image: "tools", Policy: v1.PullIfNotPresent})
				for _, reason := range []error{runtime.ErrImagePull, runtime.ErrImagePullBackOff} {
					if errors.Is(err, reason) {
						reasons[i] = reason
						break
					}
				}
			})
		}
		wg.Wait()
		require.ElementsMatch(n, []error{runtime.ErrImagePull, runtime.ErrImagePullBackOff, runtime.ErrImagePullBackOff}, reasons)
		require.Len(n, r.pulls, 1)
		time.Sleep(10 * time.Second)

		began := time.Now()
		ctx, cancel := context.WithTimeout(n.Context(), time.Second/2)
		defer cancel()
		for _, p := range []*v1.Pod{pod, other} {
			wg.Go(func() {
				_, err := n.manager.EnsureImage(n.Context(), runtime.ImageRequest{Pod: p, Image: "tools"})
				require.NoError(n, err)
			})
		}
		time.Sleep(time.Millisecond)
		_, err := n.manager.EnsureImage(ctx, runtime.ImageRequest{Pod: pod, Image: "tools"})
		require.ErrorIs(n, err, context.DeadlineExceeded, "it waits for its turn only as long as it may")
		wg.Wait()
		require.Equal(n, time.Second, time.Since(began))
		require.Len(n, r.pulls, 2)
	})
}

// An image that was removed between the look and the use (kubernetes#18140,
// #123631) is pulled again, for containers and for volumes.
func TestUpstream123631ImageThatIsLostIsPulledAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		policy v1.PullPolicy
		losses int
		err    error
		pulls  int
		reason error
	}{
		"it stays":                    {v1.PullIfNotPresent, 0, nil, 0, nil},
		"it went":                     {v1.PullIfNotPresent, 1, nil, 1, nil},
		"it went after the pull, too": {v1.PullAlways, 2, nil, 3, nil},
		"it went and must stay so":    {v1.PullNever, 1, nil, 0, runtime.ErrImageNeverPull},
		"it never stays":              {v1.PullIfNotPresent, 1000, nil, 3, runtime.ErrImagePull},
		"nobody knows":                {v1.PullIfNotPresent, 0, errors.New("away"), 0, runtime.ErrImageInspect},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(n *node, r *remover, err error) {
				require.Len(n, r.pulls, tc.pulls)
				require.Contains(n, r.found, "img-a:latest sha256:img-a:latest")
				if tc.reason != nil {
					require.ErrorIs(n, err, tc.reason)
					return
				}
				require.NoError(n, err)
				require.True(n, r.here["img-a:latest"])
			}
			inBubble(t, func(n *node) {
				r := &remover{registry: n.withImages(runtime.Options{}), losses: tc.losses, err: tc.err}
				r.here["img-a:latest"] = true
				pod := newPod(regular("a"))
				pod.Spec.Containers[0].ImagePullPolicy = tc.policy
				result := n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: pod, ImageFound: r.Found})
				check(n, r, result.Err())
			})
			inBubble(t, func(n *node) {
				r := &remover{registry: n.withImages(runtime.Options{}), losses: tc.losses, err: tc.err}
				r.here["img-a:latest"] = true
				_, err := n.manager.EnsureImage(n.Context(), runtime.ImageRequest{Pod: newPod(), Image: "img-a", Policy: tc.policy, Found: r.Found})
				check(n, r, err)
			})
		})
	}
}

// A call whose context ends during the pull returns the cause, which is no failure of the image.
func TestEnsureImageReturnsTheCauseOfItsContext(t *testing.T) {
	inBubble(t, func(n *node) {
		n.withImages(runtime.Options{})
		cause := errors.New("the volume is no longer needed")
		ctx, cancel := context.WithCancelCause(n.Context())
		time.AfterFunc(time.Second/2, func() { cancel(cause) })
		began := time.Now()
		_, err := n.manager.EnsureImage(ctx, runtime.ImageRequest{Pod: newPod(), Image: "tools"})
		require.Equal(n, cause, err)
		require.Equal(n, time.Second/2, time.Since(began))
	})
}
