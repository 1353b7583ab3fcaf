// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// second makes another agent of the library on the Root and in the world of a node. It would stop the node's pods,
// because its own source has none.
func second(t *testing.T, host *nodetest.Node) *node.Agent {
	rt, err := fake.New(fake.Options{World: host.World})
	require.NoError(t, err)
	empty := podconfig.SourceFunc(podconfig.SourceFile, func(ctx context.Context, out podconfig.Sink) error {
		if err := out.Submit(ctx, podconfig.Snapshot()); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	agent, err := node.New(node.Options{NodeName: "node", Root: host.Root(), Runtime: rt,
		Sources: []podconfig.Source{empty}, Mounter: mount.None{}})
	require.NoError(t, err)
	return agent
}

// Of two agents on the same Root the second is refused, with the folder and the process that holds
// it.
func TestASecondAgentOnOneRootIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.Apply(nodetest.Pod("web", nodetest.Container("w")))
		began := time.Now()
		err := second(t, host).Run(ctxOf(t, time.Minute))
		require.ErrorIs(t, err, node.ErrRootInUse)
		require.EqualError(t, err, fmt.Sprintf("node: lock Root %s: the folder is in use by another agent "+
			"(process %d, this one): stop that agent, or choose another folder", host.Root(), os.Getpid()))
		require.Equal(t, 5*time.Second, time.Since(began), "the time that a dying predecessor is given")
		require.Len(t, starts(host, "w"), 1)
		require.Empty(t, ends(host, "w"), "the first agent's pod runs on")

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(context.DeadlineExceeded) })
		require.ErrorIs(t, second(t, host).Run(ctx), context.DeadlineExceeded)
	})
}

// An agent that is started while its predecessor ends waits for the end.
func TestAStartWaitsForADyingPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.Apply(nodetest.Pod("web", nodetest.Container("w")))
		agent, done := second(t, host), make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() { done <- agent.Run(ctx) }()
		time.Sleep(2 * time.Second)
		require.Error(t, agent.Alive(ctxOf(t, time.Second)), "it has not begun")
		host.StopAgent()
		require.NoError(t, agent.Alive(ctxOf(t, time.Second)))
		stop()
		require.NoError(t, <-done)
		host.StartAgent()
	})
}

// A lock belongs to a folder, and the kernel releases it with its file.
func TestLockRoot(t *testing.T) {
	root := t.TempDir() + "/new/folder"
	lock, err := node.LockRoot(t.Context(), root, nil)
	require.NoError(t, err)
	options := node.Options{NodeName: "n", Root: root + "2", RootLock: lock}
	_, err = node.New(options)
	require.ErrorContains(t, err, "Options.RootLock is that of "+root+", and Root is "+root+"2")
	lock.Unlock()
	lock.Unlock()
	lock, err = node.LockRoot(t.Context(), root, nil)
	require.NoError(t, err)
	lock.Unlock()
	require.NoError(t, os.WriteFile(root+"file", nil, 0o600))
	_, err = node.LockRoot(t.Context(), root+"file", nil)
	require.ErrorContains(t, err, "lock Root: mkdir")
}

func ctxOf(t *testing.T, within time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	return ctx
}
