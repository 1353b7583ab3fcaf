// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
)

// kubeAPIServer is a real kube-apiserver with its etcd, for tests with names beginning with
// TestE2E.
var kubeAPIServer apiservertest.Shared

func TestMain(m *testing.M) { os.Exit(kubeAPIServer.Main(m)) }

// uplink is a connection to the server that the test can cut.
type uplink struct {
	mu   sync.Mutex
	down bool
	open []net.Conn
}

func (u *uplink) dial(ctx context.Context, network, address string) (net.Conn, error) {
	u.mu.Lock()
	down := u.down
	u.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.open = append(u.open, conn)
	}
	return conn, err
}

func (u *uplink) cut() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down = true
	for _, c := range u.open {
		_ = c.Close()
	}
	u.open = nil
}

func (u *uplink) mend() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down = false
}

// e2eNode is a node of a real server: a source with the node's own rights, and a store.
type e2eNode struct {
	*testing.T
	server *apiservertest.Server
	name   string // of the node and the namespace
	object *v1.Node
	admin  typedcorev1.CoreV1Interface
	client typedcorev1.CoreV1Interface // with the node's rights
	uplink uplink
	store  *podconfig.Store

	mu      sync.Mutex
	updates []podconfig.Update
	told    []*podwatch.Error // nil for the end of all problems
	changed chan struct{}     // has room for one
	onEach  func(podconfig.Update)
}

// newE2ENode makes a node with the name and runs its source until the test ends. onEach, if not
// nil, receives every update.
func newE2ENode(t *testing.T, name string, onEach func(podconfig.Update)) *e2eNode {
	n := &e2eNode{T: t, server: kubeAPIServer.Get(t), name: name, changed: make(chan struct{}, 1), onEach: onEach}
	var err error
	n.object, err = n.server.CreateNode(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, n.server.CreateNamespace(t.Context(), name))
	n.admin, err = n.server.Core()
	require.NoError(t, err)
	config := n.server.NodeConfig(name)
	config.Dial = n.uplink.dial
	n.client, err = typedcorev1.NewForConfig(config)
	require.NoError(t, err)
	n.store, err = podconfig.NewStore(podconfig.StoreOptions{})
	require.NoError(t, err)
	source, err := podwatch.New(podwatch.Config{Pods: n.client.Pods(""), NodeName: types.NodeName(name), Problem: n.problem})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- podconfig.Run(ctx, n.store, n.take, source) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(30 * time.Second):
			t.Error("Run does not end")
		}
	})
	n.await("first list", func() bool { return n.store.Seen(podconfig.SourceAPI) })
	return n
}

func (n *e2eNode) take(_ context.Context, u podconfig.Update) error {
	n.mu.Lock()
	n.updates = append(n.updates, u)
	n.mu.Unlock()
	if n.onEach != nil {
		n.onEach(u)
	}
	n.hint()
	return nil
}

func (n *e2eNode) problem(err error) {
	var e *podwatch.Error
	_ = errors.As(err, &e)
	n.mu.Lock()
	n.told = append(n.told, e)
	n.mu.Unlock()
	n.hint()
}

func (n *e2eNode) hint() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// await waits for a condition that becomes true with an update or a problem, or soon afterwards.
func (n *e2eNode) await(what string, ok func() bool) {
	n.Helper()
	deadline, again := time.After(2*time.Minute), time.NewTicker(200*time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-n.changed:
		case <-again.C:
		case <-deadline:
			require.Fail(n, "waited in vain for "+what, "told: %v", n.problems())
		}
	}
}

// ops returns the number of pods per operation since the last call.
func (n *e2eNode) ops() map[podconfig.Op]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	ops := map[podconfig.Op]int{}
	for _, u := range n.updates {
		ops[u.Op] += len(u.Pods)
	}
	n.updates = nil
	return ops
}

// problems returns the reasons reported so far, and "" for the end of all problems.
func (n *e2eNode) problems() []metav1.StatusReason {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []metav1.StatusReason
	for _, e := range n.told {
		if e == nil {
			out = append(out, "")
		} else {
			out = append(out, e.Reason)
		}
	}
	return out
}

// isWell reports whether all problems have ended.
func (n *e2eNode) isWell() bool {
	p := n.problems()
	return len(p) > 0 && p[len(p)-1] == ""
}

// held returns the names of the pods in the store, sorted.
func (n *e2eNode) held() []string {
	names := []string{}
	for _, p := range n.store.Pods() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

func (n *e2eNode) awaitHeld(want []string) {
	n.Helper()
	slices.Sort(want)
	n.await("the pods", func() bool { return slices.Equal(n.held(), want) })
}

// create creates pods that are bound to the node.
func (n *e2eNode) create(names ...string) {
	n.Helper()
	var pods []*v1.Pod
	for _, name := range names {
		pods = append(pods, apiservertest.Pod(n.name, name, n.name))
	}
	_, err := n.server.CreatePods(n.Context(), pods...)
	require.NoError(n, err)
}

// remove deletes pods, eight at a time.
func (n *e2eNode) remove(names ...string) {
	n.Helper()
	var wg sync.WaitGroup
	todo := make(chan string)
	errs := make(chan error, len(names))
	for range 8 {
		wg.Go(func() {
			for name := range todo {
				errs <- n.admin.Pods(n.name).Delete(n.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			}
		})
	}
	for _, name := range names {
		todo <- name
	}
	close(todo)
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(n, err)
	}
}
