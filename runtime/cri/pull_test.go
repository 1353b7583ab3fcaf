// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// pullBackoff is the delay after the first failure.
const pullBackoff = 10 * time.Second

// Secrets which must never appear.
const (
	password  = "hunter-two"
	signature = "signature=hunter-three"
)

// puller is a node whose manager pulls from its own registry.
type puller struct {
	*node
	*containerdtest.Registry
	manager *runtime.Manager
	events  *eventLog
}

// newPuller makes a node and a registry with the images app:1 and other:1, unique to the test,
// because containerd does not pull a known image.
func newPuller(t testing.TB, opts runtime.Options) *puller {
	t.Helper()
	n := &puller{node: newNode(t, cri.Options{}), events: &eventLog{}}
	image := func(name string) containerdtest.Image {
		return containerdtest.Image{Name: name, Cmd: []string{"sleep", "1000"}, Files: map[string]string{"/own": rand.Text()}}
	}
	n.Registry = containerdtest.StartRegistry(t, containerd.Get(t), image("app:1"), image("other:1"))
	opts.Runtime, opts.Generator, opts.Events = n.rt, n.gen, n.events
	var err error
	n.manager, err = runtime.New(opts)
	require.NoError(t, err)
	return n
}

// pod returns a pod running image. The test's cleanup removes the pod's objects.
func (n *puller) pod(name, image string) *v1.Pod {
	p := pod(strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ",", "").Replace(n.Name()))+name, "")
	p.Spec.HostNetwork = true
	p.Spec.Containers[0].Image, p.Spec.Containers[0].Command = image, nil
	n.Cleanup(func() {
		st, err := n.rt.PodStatus(context.Background(), p.UID)
		assert.NoError(n, err)
		for _, sb := range st.Sandboxes {
			assert.NoError(n, n.rt.RemoveSandbox(context.Background(), sb.ID))
		}
	})
	return p
}

func (n *puller) sync(p *v1.Pod) runtime.Result {
	return n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: p})
}

// runs syncs p and expects p to run.
func (n *puller) runs(p *v1.Pod) {
	n.Helper()
	result := n.sync(p)
	require.NoError(n, result.Err())
	require.Equal(n, runtime.StateRunning, result.Status.Active("main").State)
}

// waits syncs p and expects all its containers to wait. The results are the failures for the pod's
// status and the sync's result.
func (n *puller) waits(p *v1.Pod) (runtime.StartFailures, runtime.Result) {
	n.Helper()
	result := n.sync(p)
	require.Error(n, result.Err())
	var failures runtime.StartFailures
	failures.Apply(result.Steps)
	require.Len(n, failures, len(p.Spec.Containers))
	return failures, result
}

// recovers syncs p whenever a retry is due, until p runs.
func (n *puller) recovers(p *v1.Pod) {
	n.Helper()
	var result runtime.Result
	for range 12 {
		result = n.sync(p)
		if result.Err() == nil {
			require.Equal(n, runtime.StateRunning, result.Status.Active("main").State)
			return
		}
		if at, waiting := result.RetryAt(); waiting {
			<-time.After(time.Until(at))
		}
	}
	require.NoError(n, result.Err())
}

// keepsSecrets checks that no event, log or error contains a secret.
func (n *puller) keepsSecrets(also ...string) {
	n.Helper()
	for _, secret := range []string{password, signature, base64.StdEncoding.EncodeToString([]byte("user:" + password))} {
		for _, text := range append(n.events.all(), also...) {
			assert.NotContains(n, text, secret)
		}
	}
}

// pulls counts how often a reference was resolved. Every pull resolves once; containerd may take
// the rest from another pull.
func (n *puller) pulls() (count int) {
	for _, q := range n.Requests() {
		if q.Method == http.MethodHead && q.Status == http.StatusOK && strings.Contains(q.Path, "/manifests/") {
			count++
		}
	}
	return count
}

// flows waits until layers are under way.
func (n *puller) flows() {
	n.Helper()
	n.await(func() bool {
		return slices.ContainsFunc(n.Layers(), func(q containerdtest.Request) bool { return !q.Ended && q.Sent > 0 })
	})
}

// eventLog keeps events as "Reason message".
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *eventLog) Event(_ apiruntime.Object, _, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, reason+" "+message)
}

func (l *eventLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// count returns the number of events with the reason.
func (l *eventLog) count(reason string) (n int) {
	for _, line := range l.all() {
		if strings.HasPrefix(line, reason+" ") {
			n++
		}
	}
	return n
}

// keys is a keyring with the given passwords of user.
func keys(passwords ...string) runtime.Keyring {
	return func(context.Context, *v1.Pod, string) (out []runtime.ImageAuth, err error) {
		for _, p := range passwords {
			out = append(out, runtime.ImageAuth{Username: "user", Password: p})
		}
		return out, nil
	}
}

// A failed pull reports the reason, is not retried too soon, and works after the fault is removed.
func TestFailedPullsRecover(t *testing.T) {
	t.Parallel()
	locked := containerdtest.Behaviour{Username: "user", Password: "right"}
	for name, tc := range map[string]struct {
		behaviour containerdtest.Behaviour
		keyring   runtime.Keyring
		image     string // defaults to app:1
		message   string // a regular expression
	}{
		"without credentials":       {behaviour: locked, message: `401 Unauthorized|pull access denied`},
		"with wrong credentials":    {behaviour: locked, keyring: keys(password), message: `401 Unauthorized`},
		"unavailable":               {behaviour: containerdtest.Behaviour{Unavailable: 1000}, message: `503 Service Unavailable`},
		"dies half-way":             {behaviour: containerdtest.Behaviour{Cuts: 1000}, message: `unexpected EOF`},
		"dies half-way, elsewhere":  {behaviour: containerdtest.Behaviour{Cuts: 1000, Redirect: signature}, message: `unexpected EOF`},
		"elsewhere is not allowed":  {behaviour: containerdtest.Behaviour{Redirect: signature, Expired: true}, message: `403 Forbidden`},
		"wrong digest":              {behaviour: containerdtest.Behaviour{Corrupt: true}, message: `unexpected commit digest sha256:\w+, expected sha256:`},
		"wrong digest, by a digest": {behaviour: containerdtest.Behaviour{Corrupt: true}, image: "digest", message: `unexpected commit digest sha256:\w+, expected sha256:`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newPuller(t, runtime.Options{Keyring: tc.keyring})
			n.Behave(tc.behaviour)
			image := n.Ref("app:1")
			if tc.image != "" {
				image += "@" + n.Digest("app:1")
			}
			p := n.pod("", image)
			p.Spec.Containers[0].ImagePullPolicy = v1.PullNever
			n.waits(p) // wait for a sandbox, which may take longer than the back-off
			p.Spec.Containers[0].ImagePullPolicy = v1.PullIfNotPresent
			waiting, result := n.waits(p)
			first := waiting["main"]
			assert.Equal(t, "ErrImagePull", first.Reason)
			assert.Contains(t, first.Message, fmt.Sprintf("pull image %q: ", image))
			assert.Regexp(t, tc.message, first.Message)
			assert.True(t, result.Failed())
			assert.Equal(t, []int{1, 3, 0}, []int{n.events.count("Pulling"), n.events.count("Failed"), n.events.count("Pulled")})

			before := len(n.Requests())
			waiting, result = n.waits(p)
			second := waiting["main"]
			at, later := result.RetryAt()
			assert.Equal(t, "ImagePullBackOff", second.Reason)
			assert.Regexp(t, tc.message, second.Message, "it says what went wrong")
			require.True(t, later)
			assert.False(t, result.Failed())
			assert.True(t, time.Until(at) <= pullBackoff, at)
			assert.Len(t, n.Requests(), before)
			assert.Equal(t, 1, n.events.count("BackOff"))
			n.keepsSecrets(first.Message, second.Message, result.Err().Error())

			n.Behave(containerdtest.Behaviour{})
			n.recovers(p)
			assert.Equal(t, 1, n.events.count("Pulled"))
		})
	}
}

// Pulls of an image absent from the registry, and from an address without a registry.
func TestPullsOfNothing(t *testing.T) {
	t.Parallel()
	n := newPuller(t, runtime.Options{})
	cases := []struct{ image, policy, reason, message string }{
		{n.Ref("app:2"), "", "ErrImagePull", "not found"},
		{n.Ref("app@sha256:" + strings.Repeat("0", 64)), "", "ErrImagePull", "not found"},
		{n.Ref("app:1@sha256:" + strings.Repeat("0", 64)), "", "ErrImagePull", "not found"},
		{"127.0.0.1:1/app:1", "", "ErrImagePull", "connection refused"},
		{n.Ref("app:1"), "Never", "ErrImageNeverPull", "with pull policy of Never"},
		{n.Ref("App:1"), "", "InvalidImageName", "must be lowercase"},
		{"http://" + n.Ref("app:1"), "", "InvalidImageName", "a reference has no scheme"},
	}
	p := n.pod("", "")
	p.Spec.Containers = nil
	for i, tc := range cases {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{
			Name: fmt.Sprint("c", i), Image: tc.image, ImagePullPolicy: v1.PullPolicy(tc.policy),
		})
	}
	waiting, _ := n.waits(p)
	for i, tc := range cases {
		got := waiting[fmt.Sprint("c", i)]
		assert.Equal(t, tc.reason, got.Reason, tc.image)
		assert.Contains(t, got.Message, tc.message, tc.image)
		assert.Contains(t, got.Message, tc.image)
	}
	for _, q := range n.Requests() {
		assert.False(t, strings.HasSuffix(q.Path, "/manifests/1"), "nobody asked for app:1")
	}
}
