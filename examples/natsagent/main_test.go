// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/process"
)

func TestMain(m *testing.M) {
	process.Main()
	os.Exit(m.Run())
}

// The program runs a pod of the bus with its ConfigMap, reports its statuses, and stops the pod when its key is
// removed. It starts before the server.
func TestRun(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	require.True(t, s.ReadyForConnections(20*time.Second))
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	state := t.TempDir()
	wg.Go(func() { assert.NoError(t, run(ctx, s.ClientURL(), "n", state)) })
	buckets := map[string]jetstream.KeyValue{}
	for _, name := range []string{"desired", "statuses"} {
		buckets[name], err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name})
		require.NoError(t, err)
	}
	_, err = buckets["desired"].PutString(ctx, "configmaps.n.default.c", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {word: hello}}")
	require.NoError(t, err)
	said := filepath.Join(t.TempDir(), "said")
	_, err = buckets["desired"].PutString(ctx, "pods.n.default.web", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: host
    command: [/bin/sh, -c, "echo $WORD > %s; while true; do sleep 0.1; done"]
    env: [{name: WORD, valueFrom: {configMapKeyRef: {name: c, key: word}}}]
`, said))
	require.NoError(t, err)
	defer func() { assert.Empty(t, runs(t, said), "no process is left") }()
	status := func() string {
		e, err := buckets["statuses"].Get(ctx, "pods.n.default.web-n")
		if err != nil {
			return err.Error()
		}
		return string(e.Value())
	}
	if !assert.Eventually(t, func() bool { return strings.Contains(status(), `"phase":"Running"`) }, 30*time.Second, 20*time.Millisecond, "Running") {
		t.Log(status())
	}
	require.Eventually(t, func() bool { data, _ := os.ReadFile(said); return string(data) == "hello\n" }, 30*time.Second, 20*time.Millisecond)
	require.NoError(t, buckets["desired"].Delete(ctx, "pods.n.default.web"))
	require.Eventually(t, func() bool { return strings.Contains(status(), "key not found") }, 30*time.Second, 20*time.Millisecond, "gone")
}

// runs returns the processes with a word on their command line.
func runs(t *testing.T, word string) (all []string) {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, name := range names {
		if data, _ := os.ReadFile(name); strings.Contains(string(data), word) {
			all = append(all, name)
		}
	}
	return all
}
