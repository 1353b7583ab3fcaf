// SPDX-License-Identifier: Apache-2.0

package nodeserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// checkpointer is a runtime that makes checkpoints.
type checkpointer struct {
	*containers
	gate   chan struct{} // if set, a call sends to it, and then waits for a value
	err    error
	limits []time.Duration // of each call, 0: none
}

// Checkpoint implements runtime.Checkpointer. It writes half of the file before it fails.
func (c *checkpointer) Checkpoint(ctx context.Context, id runtime.ContainerID, path string) error {
	limit := time.Duration(0)
	if end, ok := ctx.Deadline(); ok {
		limit = time.Until(end)
	}
	c.limits = append(c.limits, limit)
	if c.gate != nil {
		c.gate <- struct{}{}
		<-c.gate
	}
	if err := os.WriteFile(path, []byte(id.ID), 0o600); err != nil {
		return err
	}
	return c.err
}

func TestCheckpoint(t *testing.T) {
	rt := &checkpointer{containers: newContainers(t)}
	dir := filepath.Join(t.TempDir(), "root", "checkpoints")
	s := newServer(t, nodeserver.Checkpoint(nodeserver.CheckpointOptions{Pods: rt.find, Runtime: rt, Dir: dir}))

	code, body := ask(t, s, "POST", "/checkpoint/ns/web/main?timeout=1&timeout=60")
	require.Equal(t, 200, code, body)
	var answer struct{ Items []string }
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	require.Len(t, answer.Items, 1)
	require.Regexp(t, `^`+dir+`/checkpoint-web_ns-main-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*\.tar$`, answer.Items[0])
	require.FileExists(t, answer.Items[0])
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.Greater(t, rt.limits[0], time.Second, "the last timeout counts")
	require.NoError(t, os.Remove(answer.Items[0]))

	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/checkpoint/ns/other/main":            {404, "pod does not exist"},
		"/checkpoint/ns/web/none":              {404, "container none does not exist"},
		"/checkpoint/ns/web/main?timeout=soon": {404, "cannot parse value of timeout parameter"},
		"/checkpoint/ns/web/main?timeout=-1":   {404, "cannot parse value of timeout parameter"},
		"/checkpoint/ns/web/waiting":           {500, "checkpointing of ns/web/waiting failed (container waiting not found)"},
	} {
		code, body := ask(t, s, "POST", path)
		assert.Equal(t, want.code, code, path)
		assert.Contains(t, body, want.text, path)
	}
	code, _ = ask(t, s, "GET", "/checkpoint/ns/web/main")
	require.Equal(t, 405, code)

	t.Log("a checkpoint that fails leaves no file, and the error is as with the kubelet")
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&cri.CallError{Call: "CheckpointContainer", Code: codes.Unimplemented, Message: "unknown method CheckpointContainer"},
			"checkpointing of ns/web/main failed (rpc error: code = Unimplemented desc = unknown method CheckpointContainer)"},
		{errors.New("no space"), "checkpointing of ns/web/main failed (no space)"},
	} {
		rt.err = tc.err
		code, body := ask(t, s, "POST", "/checkpoint/ns/web/main")
		assert.Equal(t, 500, code)
		assert.Contains(t, body, tc.want)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, left)
	}

	plain := newContainers(t)
	code, body = ask(t, newServer(t, nodeserver.Checkpoint(nodeserver.CheckpointOptions{Pods: plain.find, Runtime: plain, Dir: dir})), "POST", "/checkpoint/ns/web/main")
	require.Equal(t, 500, code)
	require.Contains(t, body, runtime.ErrUnsupported.Error())
}

// Checkpoints have the size of the container's memory: more than one at a time could fill the disk of a
// node unseen.
func TestOneCheckpointAtATime(t *testing.T) {
	rt := &checkpointer{containers: newContainers(t), gate: make(chan struct{})}
	s := newServer(t, nodeserver.Checkpoint(nodeserver.CheckpointOptions{Pods: rt.find, Runtime: rt, Dir: t.TempDir()}))
	first := make(chan int)
	go func() {
		code, _ := ask(t, s, "POST", "/checkpoint/ns/web/main")
		first <- code
	}()
	<-rt.gate // the first request is in the runtime
	code, body := ask(t, s, "POST", "/checkpoint/ns/web/main")
	require.Equal(t, 429, code, body)
	rt.gate <- struct{}{}
	require.Equal(t, 200, <-first)
}
