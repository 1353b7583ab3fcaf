// SPDX-License-Identifier: Apache-2.0

package loglinks_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/loglinks"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// node is a host with the feature, whose pods are those of a runtime that says what it wants.
type node struct {
	*testing.T
	dir, logs string
	feature   feature.Feature
	stop      context.CancelFunc
}

// onNode runs a test in a bubble, with a log file of the container main-ID for each ID in ids.
func onNode(t *testing.T, test func(n *node)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := &node{T: t, dir: filepath.Join(dir, "containers"), logs: filepath.Join(dir, "pods")}
		n.start()
		test(n)
		n.stop()
		synctest.Wait()
	})
}

func (n *node) start() {
	var err error
	n.feature, err = loglinks.New(&feature.Host{Table: feature.NewTable(), Log: zap.NewNop()}, loglinks.Options{Dir: n.dir, Logs: n.logs})
	require.NoError(n, err)
	var ctx context.Context
	ctx, n.stop = context.WithCancel(n.Context())
	go func() { assert.NoError(n, n.feature.Run(ctx)) }()
	n.settle()
}

func (n *node) settle() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
}

// observe tells the feature of the containers of a pod.
func (n *node) observe(uid string, ids ...string) {
	n.Helper()
	status := &runtime.PodStatus{Namespace: "ns", Name: "web", UID: types.UID(uid)}
	for i, id := range ids {
		log := filepath.Join(n.logs, "ns_web_"+uid, "main", fmt.Sprint(i, ".log"))
		require.NoError(n, os.MkdirAll(filepath.Dir(log), 0o755))
		require.NoError(n, os.WriteFile(log, []byte("text of "+id), 0o600))
		status.Containers = append(status.Containers, runtime.ContainerStatus{Name: "main", ID: runtime.ContainerID{ID: id}, LogPath: log})
	}
	pod := &v1.Pod{}
	pod.UID = types.UID(uid)
	n.feature.Input(pod, &podstatus.Input{Observed: status})
	n.settle()
}

func (n *node) links() (names []string) {
	n.Helper()
	entries, err := os.ReadDir(n.dir)
	require.NoError(n, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestContainersHaveLinks(t *testing.T) {
	onNode(t, func(n *node) {
		n.observe("1", "a", "b")
		require.Equal(n, []string{"web_ns_main-a.log", "web_ns_main-b.log"}, n.links())
		text, err := os.ReadFile(filepath.Join(n.dir, "web_ns_main-b.log"))
		require.NoError(n, err)
		require.Equal(n, "text of b", string(text))
		require.NoError(n, os.WriteFile(filepath.Join(n.dir, "web_ns_main-c.log"), []byte("of the user"), 0o600))
		n.observe("1", "b", "c")
		require.Equal(n, []string{"web_ns_main-b.log", "web_ns_main-c.log"}, n.links())
		text, err = os.ReadFile(filepath.Join(n.dir, "web_ns_main-c.log"))
		require.NoError(n, err)
		require.Equal(n, "of the user", string(text))

		n.Log("the next agent keeps the links of pods that it does not know yet, and removes broken ones")
		n.stop()
		n.start()
		require.Len(n, n.links(), 2)
		n.stop()
		require.NoError(n, os.RemoveAll(n.logs))
		n.start()
		require.Equal(n, []string{"web_ns_main-c.log"}, n.links())
	})
}

// Neither the IDs of a runtime, nor links that somebody put there, lead out of the folder.
func TestHostileNamesStayInTheFolder(t *testing.T) {
	onNode(t, func(n *node) {
		outside := filepath.Join(filepath.Dir(n.dir), "outside")
		require.NoError(n, os.Mkdir(outside, 0o755))
		require.NoError(n, os.Symlink(outside, filepath.Join(n.dir, "out")))
		n.observe("1", "../../outside/x", "/etc/x", "a")
		require.Equal(n, []string{"out", "web_ns_main-a.log"}, n.links())
		entries, err := os.ReadDir(outside)
		require.NoError(n, err)
		require.Empty(n, entries)
	})
}

// A folder that cannot be used is told once, and does not end the node.
func TestAFolderThatCannotBeUsed(t *testing.T) {
	onNode(t, func(n *node) {
		require.NoError(n, os.Remove(n.dir))
		require.NoError(n, os.WriteFile(n.dir, nil, 0o600))
		n.observe("1", "a")
		require.NoError(n, os.Remove(n.dir))
		n.observe("1", "a")
		require.Equal(n, []string{"web_ns_main-a.log"}, n.links())
	})
	_, err := loglinks.New(&feature.Host{Table: feature.NewTable(), Log: zap.NewNop()}, loglinks.Options{Dir: "containers", Logs: "/logs"})
	require.ErrorContains(t, err, "Options.Dir")
}
