// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// node is a fake with short ways to use it.
type node struct {
	*fake.Runtime
	tb testing.TB
}

func newNode(tb testing.TB, opts fake.WorldOptions) *node {
	tb.Helper()
	world, err := fake.NewWorld(opts)
	require.NoError(tb, err)
	rt, err := fake.New(fake.Options{World: world})
	require.NoError(tb, err)
	return &node{rt, tb}
}

// inBubble runs f with a node in virtual time.
func inBubble(t *testing.T, opts fake.WorldOptions, f func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newNode(t, opts)) })
}

func sandboxSpec(uid types.UID, attempt uint32) runtime.SandboxSpec {
	return runtime.SandboxSpec{UID: uid, Namespace: "default", Name: "pod-" + string(uid), Attempt: attempt}
}

func (n *node) sandbox(uid types.UID, attempt uint32) runtime.SandboxID {
	n.tb.Helper()
	id, err := n.RunSandbox(n.tb.Context(), sandboxSpec(uid, attempt))
	require.NoError(n.tb, err)
	return id
}

func (n *node) create(sb runtime.SandboxID, name string, restart int32) runtime.ContainerID {
	n.tb.Helper()
	id, err := n.CreateContainer(n.tb.Context(), sb, runtime.ContainerSpec{Name: name, RestartCount: restart, Image: "image-of-" + name})
	require.NoError(n.tb, err)
	return id
}

func (n *node) run(sb runtime.SandboxID, name string, restart int32) runtime.ContainerID {
	n.tb.Helper()
	id := n.create(sb, name, restart)
	require.NoError(n.tb, n.StartContainer(n.tb.Context(), id))
	return id
}

func (n *node) inject(f fake.Fault) *fake.Injected {
	n.tb.Helper()
	in, err := n.Inject(f)
	require.NoError(n.tb, err)
	return in
}

func (n *node) status(uid types.UID) *runtime.PodStatus {
	n.tb.Helper()
	st, err := n.PodStatus(n.tb.Context(), uid)
	require.NoError(n.tb, err)
	return st
}

func (n *node) latest(uid types.UID, name string) runtime.ContainerStatus {
	n.tb.Helper()
	c := n.status(uid).Latest(name)
	require.NotNil(n.tb, c, "no record of %s", name)
	return *c
}

// after lets so much time pass, and everything happen that is due.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
