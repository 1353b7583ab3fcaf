// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime"
)

// Images are pulled by tag and by digest, with credentials, from slow registries and from
// registries with one aborted transfer. Afterwards the image's ID is known by the reference.
func TestPulls(t *testing.T) {
	t.Parallel()
	locked := containerdtest.Behaviour{Username: "user", Password: "right"}
	for name, tc := range map[string]struct {
		image     func(n *puller) string
		behaviour containerdtest.Behaviour
		keyring   runtime.Keyring
		policy    v1.PullPolicy
		layers    int // requests for
	}{
		"by tag":                  {layers: 1},
		"if not present":          {policy: v1.PullIfNotPresent, layers: 1},
		"always":                  {policy: v1.PullAlways, layers: 1},
		"by digest":               {image: func(n *puller) string { return n.Ref("app@" + n.Digest("app:1")) }, policy: v1.PullIfNotPresent, layers: 1},
		"by tag and digest":       {image: func(n *puller) string { return n.Ref("app:1@" + n.Digest("app:1")) }, policy: v1.PullIfNotPresent, layers: 1},
		"by a false tag":          {image: func(n *puller) string { return n.Ref("app:9@" + n.Digest("app:1")) }, policy: v1.PullIfNotPresent, layers: 1},
		"with credentials":        {behaviour: locked, keyring: keys("right"), layers: 1},
		"with the second ones":    {behaviour: locked, keyring: keys(password, "right"), layers: 1},
		"from elsewhere":          {behaviour: containerdtest.Behaviour{Username: "user", Password: "right", Redirect: signature}, keyring: keys("right"), layers: 1},
		"slowly":                  {behaviour: containerdtest.Behaviour{Latency: 200 * time.Millisecond}, layers: 1},
		"in spite of one breakup": {behaviour: containerdtest.Behaviour{Cuts: 1}, layers: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newPuller(t, runtime.Options{Keyring: tc.keyring})
			n.Behave(tc.behaviour)
			image := n.Ref("app:1")
			if tc.image != nil {
				image = tc.image(n)
			}
			p := n.pod("", image)
			p.Spec.Containers[0].ImagePullPolicy = tc.policy
			n.runs(p)
			assert.Len(t, n.Layers(), tc.layers)
			assert.Equal(t, 1, n.pulls())
			assert.Equal(t, []int{1, 1, 0}, []int{n.events.count("Pulling"), n.events.count("Pulled"), n.events.count("Failed")})
			n.keepsSecrets()
			id, err := n.rt.ImageID(t.Context(), image)
			require.NoError(t, err)
			assert.NotEmpty(t, id)

			if tc.policy != v1.PullIfNotPresent {
				return
			}
			before := len(n.Requests())
			next := n.pod("next", image)
			next.Spec.Containers[0].ImagePullPolicy = tc.policy
			n.Behave(containerdtest.Behaviour{Unavailable: 1000})
			n.runs(next)
			assert.Len(t, n.Requests(), before, "what is here is not asked for")
		})
	}
}

// Two pods pulling the same image at the same time share the download.
func TestOnePullServesTwoPods(t *testing.T) {
	t.Parallel()
	n := newPuller(t, runtime.Options{})
	hold := make(chan struct{})
	n.Behave(containerdtest.Behaviour{Hold: hold})
	pods := []*v1.Pod{n.pod("1", n.Ref("app:1")), n.pod("2", n.Ref("app:1"))}
	var wg sync.WaitGroup
	results := make([]runtime.Result, len(pods))
	for i, p := range pods {
		wg.Go(func() { results[i] = n.sync(p) })
	}
	n.flows()
	n.await(func() bool { return n.events.count("Pulling") == 2 })
	close(hold)
	wg.Wait()
	for _, r := range results {
		require.NoError(t, r.Err())
		assert.Equal(t, runtime.StateRunning, r.Status.Active("main").State)
	}
	assert.Len(t, n.Layers(), 1)
	assert.Equal(t, 1, n.pulls(), "containerd was asked once")
}

// A hanging registry delays only the container with an image from the registry, neither its
// siblings nor other pods.
func TestHungPullHoldsUpItsOwnContainerOnly(t *testing.T) {
	t.Parallel()
	n := newPuller(t, runtime.Options{})
	hold := make(chan struct{})
	n.Behave(containerdtest.Behaviour{Hold: hold})
	p := n.pod("", containerdtest.BusyboxImage)
	p.Spec.Containers[0].Command = []string{"sleep", "1000"}
	p.Spec.Containers[0].ImagePullPolicy = v1.PullIfNotPresent
	p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "slow", Image: n.Ref("app:1")})
	var wg sync.WaitGroup
	var result runtime.Result
	wg.Go(func() { result = n.sync(p) })
	n.flows()
	n.await(func() bool {
		st, err := n.rt.PodStatus(t.Context(), p.UID)
		require.NoError(t, err)
		c := st.Active("main")
		return c != nil && c.State == runtime.StateRunning && st.Latest("slow") == nil
	})
	n.Behave(containerdtest.Behaviour{})
	n.runs(n.pod("other", n.Ref("other:1")))
	close(hold)
	wg.Wait()
	require.NoError(t, result.Err())
	assert.Equal(t, runtime.StateRunning, result.Status.Active("slow").State)
}

// containerd tells the layers of the only pull, and of none of several.
func TestPullProgress(t *testing.T) {
	t.Parallel()
	n := newPuller(t, runtime.Options{})
	hold := make(chan struct{})
	n.Behave(containerdtest.Behaviour{Hold: hold})
	var wg sync.WaitGroup
	pull := func(pod, image string) {
		p := n.pod(pod, n.Ref(image))
		wg.Go(func() { assert.NoError(t, n.sync(p).Err()) })
	}
	pull("one", "app:1")
	n.flows()
	var pulls []runtime.Pull
	n.await(func() bool { pulls = n.manager.Pulls(t.Context()); return pulls[0].Progress.Bytes > 0 })
	assert.Len(t, pulls, 1)
	assert.Equal(t, n.Ref("app:1"), pulls[0].Image)
	assert.True(t, pulls[0].Progress.Current)
	assert.Greater(t, pulls[0].Progress.Total, pulls[0].Progress.Bytes)
	pull("two", "other:1")
	n.await(func() bool { pulls = n.manager.Pulls(t.Context()); return len(pulls) == 2 && !pulls[1].Began.IsZero() })
	n.await(func() bool { return n.manager.Pulls(t.Context())[1].Progress == runtime.PullProgress{} })
	close(hold)
	wg.Wait()
	assert.Regexp(t, `Successfully pulled image ".*app:1" in .*s \(.*s including waiting\)\. Image size: [0-9]+ bytes\.`, strings.Join(n.events.all(), "\n"))
}

// A pull ends with its ctx: containerd stops fetching. The cancellation is not a failure.
func TestPullEndsWithItsContext(t *testing.T) {
	t.Parallel()
	n := newPuller(t, runtime.Options{})
	n.Behave(containerdtest.Behaviour{Hold: make(chan struct{})})
	p := n.pod("", n.Ref("app:1"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan runtime.Result)
	go func() { done <- n.manager.SyncPod(ctx, runtime.SyncRequest{Pod: p}) }()
	n.flows()
	n.await(func() bool { // otherwise the sandbox would end
		st, err := n.rt.PodStatus(t.Context(), p.UID)
		require.NoError(t, err)
		return st.Current() != nil
	})
	cancel()
	select {
	case result := <-done:
		require.ErrorIs(t, result.Err(), context.Canceled)
	case <-time.After(10 * time.Second):
		t.Fatal("SyncPod does not return")
	}
	n.await(func() bool { l := n.Layers(); return len(l) == 1 && l[0].Abandoned })
	assert.Zero(t, n.events.count("Failed"))
	n.Behave(containerdtest.Behaviour{})
	n.recovers(p)
	assert.Zero(t, n.events.count("BackOff"))
}
