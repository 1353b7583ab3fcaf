// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// metered is a registry whose pulls take their time, and tell how far they are: a megabyte a second.
type metered struct {
	*registry
	take  time.Duration
	began map[string]time.Time
	size  error
}

func (m *metered) PullImage(ctx context.Context, image string, auth *runtime.ImageAuth) (string, error) {
	m.mu.Lock()
	m.began[image] = time.Now()
	m.mu.Unlock()
	select {
	case <-time.After(m.take - time.Second):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return m.registry.PullImage(ctx, image, auth) // takes a second
}

func (m *metered) PullProgress(_ context.Context, image string) runtime.PullProgress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return runtime.PullProgress{Bytes: int64(time.Since(m.began[image]).Seconds() * 1e6), Total: int64(m.take.Seconds() * 1e6)}
}

func (m *metered) ImageSize(context.Context, string) (int64, error) { return 123, m.size }

// timedEvents keeps events about images with their times.
type timedEvents struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func (e *timedEvents) Event(object apiruntime.Object, _, reason, message string) {
	if !strings.HasPrefix(reason, "Pull") && reason != "Failed" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, fmt.Sprintf("%s %s %s", time.Since(e.began), reason, message))
}

// withMeter gives the node a metered registry.
func (n *node) withMeter(opts runtime.Options, take time.Duration) (*metered, *timedEvents) {
	n.Helper()
	m := &metered{registry: n.withImages(runtime.Options{}), take: take, began: map[string]time.Time{}}
	events := &timedEvents{began: time.Now()}
	opts.Runtime, opts.Events = m, events
	var err error
	opts.Generator, err = runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/nonexistent/logs"})
	require.NoError(n, err)
	n.manager, err = runtime.New(opts)
	require.NoError(n, err)
	return m, events
}

// A long pull has few events, whose numbers count up.
func TestPullProgressEvents(t *testing.T) {
	inBubble(t, func(n *node) {
		_, events := n.withMeter(runtime.Options{}, 5*time.Minute)
		require.NoError(n, n.sync(newPod()).Err())
		require.Equal(n, []string{
			`0s Pulling Pulling image "img-c:latest"`,
			`30s PullProgress Image "img-c:latest": pulling for 30s, 30.0 of 300.0 MB`,
			`1m0s PullProgress Image "img-c:latest": pulling for 1m0s, 60.0 of 300.0 MB`,
			`2m0s PullProgress Image "img-c:latest": pulling for 2m0s, 120.0 of 300.0 MB`,
			`4m0s PullProgress Image "img-c:latest": pulling for 4m0s, 240.0 of 300.0 MB`,
			`5m0s Pulled Successfully pulled image "img-c:latest" in 5m0s (5m0s including waiting). Image size: 123 bytes.`,
		}, events.lines)
	})
}

// A day of pulling has fewer events than client-go keeps for a pod.
func TestPullProgressIsModerate(t *testing.T) {
	inBubble(t, func(n *node) {
		_, events := n.withMeter(runtime.Options{}, 24*time.Hour)
		require.NoError(n, n.sync(newPod()).Err())
		require.LessOrEqual(n, len(events.lines), 15)
	})
}

// A pull that waits for a slot says so, and its time does not count as pulling.
func TestPullThatWaits(t *testing.T) {
	inBubble(t, func(n *node) {
		m, events := n.withMeter(runtime.Options{MaxConcurrentPulls: 1}, 40*time.Second)
		m.size = errors.New("broken")
		var wg sync.WaitGroup
		first, second := newPod(regular("a")), newPod(regular("b"))
		second.UID = types.UID("uid-second")
		wg.Go(func() { n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: first}) })
		time.Sleep(time.Second)
		wg.Go(func() { n.manager.SyncPod(n.Context(), runtime.SyncRequest{Pod: second}) })
		time.Sleep(9 * time.Second)
		pulls := n.manager.Pulls(n.Context())
		require.Len(n, pulls, 2)
		assert.Equal(n, "img-a:latest", pulls[0].Image)
		assert.Equal(n, "pulling for 10s, 10.0 of 40.0 MB", pulls[0].String())
		assert.Equal(n, "waiting for other pulls for 9s", pulls[1].String())
		wg.Wait()
		require.Empty(n, n.manager.Pulls(n.Context()))
		require.Contains(n, events.lines, `31s PullProgress Image "img-b:latest": waiting for other pulls for 30s`)
		require.Contains(n, events.lines, `1m20s Pulled Successfully pulled image "img-b:latest" in 40s (1m19s including waiting).`)
	})
}

// A failed pull ends its progress events, and a runtime without a meter has events without numbers.
func TestPullProgressEnds(t *testing.T) {
	inBubble(t, func(n *node) {
		m, events := n.withMeter(runtime.Options{}, 45*time.Second)
		m.failWith = []error{errors.New("no route")}
		require.Error(n, n.sync(newPod()).Err())
		require.Len(n, events.lines, 4, "Pulling, PullProgress, Failed twice: %v", events.lines)
		time.Sleep(time.Hour)
		require.Len(n, events.lines, 4)
	})
	for p, want := range map[runtime.PullProgress]string{
		{}:                                    "",
		{Bytes: 1_500_000}:                    "1.5 MB",
		{Total: 2_000_000}:                    "0.0 of 2.0 MB",
		{Bytes: 1, Total: 2e9, Current: true}: "0.0 of 2000.0 MB of the layers under way",
	} {
		assert.Equal(t, want, p.String())
	}
}
