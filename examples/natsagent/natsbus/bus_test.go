// SPDX-License-Identifier: Apache-2.0

package natsbus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/natsagent/natsbus"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// bench is a NATS server that can be stopped, a bus, and the pods of a node.
type bench struct {
	*testing.T
	dir    string
	port   int
	server *server.Server
	admin  jetstream.JetStream
	store  *objects.Store
	cache  string

	mu       sync.Mutex
	pods     map[types.UID]*v1.Pod
	known    []*v1.Pod // of the node, with their statuses
	changes  int
	problems map[string]string
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, dir: t.TempDir(), port: server.RANDOM_PORT, cache: filepath.Join(t.TempDir(), "objects"), pods: map[types.UID]*v1.Pod{}, problems: map[string]string{}}
	b.serve()
	t.Cleanup(func() { b.server.Shutdown(); b.server.WaitForShutdown() })
	b.buckets()
	return b
}

// serve starts the server on the same port as before.
func (b *bench) serve() {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: b.port, JetStream: true, StoreDir: b.dir, NoSigs: true, NoLog: true})
	require.NoError(b, err)
	s.Start()
	require.True(b, s.ReadyForConnections(20*time.Second))
	b.server = s
	if addr := s.ClientURL(); b.port == server.RANDOM_PORT {
		_, err := fmt.Sscanf(addr, "nats://127.0.0.1:%d", &b.port)
		require.NoError(b, err)
	}
}

func (b *bench) stop() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

// connect connects a client.
func (b *bench) connect() *nats.Conn {
	conn, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", b.port), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	require.NoError(b, err)
	b.Cleanup(conn.Close)
	return conn
}

func (b *bench) buckets() {
	js, err := jetstream.New(b.connect(), jetstream.WithDefaultTimeout(500*time.Millisecond))
	require.NoError(b, err)
	b.admin = js
	for _, name := range []string{"desired", "statuses"} {
		b.eventually(func() bool {
			_, err := js.CreateKeyValue(b.Context(), jetstream.KeyValueConfig{Bucket: name})
			return err == nil
		}, "bucket %s", name)
	}
}

func (b *bench) bucket(name string) jetstream.KeyValue {
	kv, err := b.admin.KeyValue(b.Context(), name)
	require.NoError(b, err)
	return kv
}

func (b *bench) put(key, value string) {
	b.Helper()
	b.eventually(func() bool { // the server may have been started a moment ago
		kv, err := b.admin.KeyValue(b.Context(), "desired")
		if err == nil {
			_, err = kv.Put(b.Context(), key, []byte(value))
		}
		return err == nil
	}, "put %s", key)
}

func (b *bench) remove(key string) { require.NoError(b, b.bucket("desired").Delete(b.Context(), key)) }

// Submit implements podconfig.Sink.
func (b *bench) Submit(_ context.Context, c podconfig.Change) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes++
	if c.Kind() == podconfig.ChangeSnapshot {
		clear(b.pods)
	}
	for _, uid := range c.UIDs() {
		delete(b.pods, uid)
	}
	for _, pod := range c.Pods() {
		maps.DeleteFunc(b.pods, func(_ types.UID, p *v1.Pod) bool { return p.Name == pod.Name && p.Namespace == pod.Namespace })
		b.pods[pod.UID] = pod
	}
	return nil
}

// has returns the images of the pods.
func (b *bench) has() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, pod := range b.pods {
		all = append(all, pod.Name+" "+pod.Spec.Containers[0].Image)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (b *bench) submitted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes
}

func (b *bench) problem(key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.problems[key]
}

func (b *bench) wait(want string) {
	b.Helper()
	b.eventually(func() bool { return b.has() == want }, "want %q", want)
}

func (b *bench) eventually(f func() bool, format string, args ...any) {
	b.Helper()
	require.Eventually(b, f, 30*time.Second, 5*time.Millisecond, append([]any{format}, args...)...)
}

// start runs the bus as a node does, until the result is called.
func (b *bench) start() (bus *natsbus.Bus, stop func()) {
	store, err := objects.NewStore(objects.Options{})
	require.NoError(b, err)
	b.store = store
	bus, err = natsbus.New(natsbus.Options{
		Node: "gw.example", Conn: b.connect(), Desired: "desired", Statuses: "statuses", Store: store, Cache: b.cache, CheckPeriod: 100 * time.Millisecond,
		Pods: func() []*v1.Pod {
			b.mu.Lock()
			defer b.mu.Unlock()
			return slices.Clone(b.known)
		},
		Problem: func(key string, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.problems, key)
			if err != nil {
				b.problems[key] = err.Error()
			}
		},
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		source := podconfig.Retry(bus, func(err error, _ time.Duration) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.problems["source"] = fmt.Sprint(err)
		})
		if err := source.Run(ctx, b); err != nil && !errors.Is(err, context.Canceled) {
			assert.NoError(b, err)
		}
	})
	wg.Go(func() { assert.NoError(b, bus.Reports().Run(ctx)) })
	return bus, func() { cancel(); wg.Wait() }
}

const key = "pods.gw/example.default.web"

func manifest(image string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: '" + image + "'}]}\n"
}

func TestPods(t *testing.T) {
	b := newBench(t)
	b.put(key, manifest("web:1"))
	b.put("pods.gw.default.web", manifest("other-node:1"))
	_, stop := b.start()
	defer stop()
	b.wait("web-gw.example web:1")
	b.put(key, manifest("web:2"))
	b.wait("web-gw.example web:2")
	before := b.submitted()
	b.put(key, manifest("web:2")) // a duplicate
	b.put("pods.gw/example.default.web/2", strings.Replace(manifest("web:3"), "name: web", "name: web.2", 1))
	b.wait("web-gw.example web:2, web.2-gw.example web:3")
	require.Equal(t, before+1, b.submitted(), "the duplicate is no change")
	b.remove(key)
	b.wait("web.2-gw.example web:3")
}

// Hostile values change nothing, and are told with their key.
func TestHostileValues(t *testing.T) {
	b := newBench(t)
	b.put(key, manifest("web:1"))
	_, stop := b.start()
	defer stop()
	b.wait("web-gw.example web:1")
	prefix := "pods.gw/example."
	for at, c := range map[string]struct{ value, want string }{
		key:                            {"{", "not valid YAML"},
		prefix + "default.none":        {"", ""},
		prefix + "default.thief":       {manifest("thief:1"), "the key is that of pod default/thief-gw.example"},
		prefix + "other.web":           {manifest("thief:1"), "the key is that of pod other/web-gw.example"},
		prefix + "default":             {manifest("thief:1"), "want KIND.NODE.NAMESPACE.NAME"},
		prefix + "default.a.b.c":       {manifest("thief:1"), "want KIND.NODE.NAMESPACE.NAME"},
		prefix + "default.typo":        {strings.Replace(manifest("x"), "image:", "imagee:", 1), "imagee"},
		prefix + "default.bomb":        {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n", ""},
		prefix + "default.binary":      {"\x00\xff\xfe", ""},
		prefix + "default.large":       {strings.Repeat("#", 1<<20-200) + "\n", ""},
		"secrets.gw/example.default.s": {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: [hunter2]}\n", "not a valid Secret"},
		"secrets.gw/example.default.k": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: k}\n", `kind "ConfigMap"`},
	} {
		b.put(at, c.value)
		b.eventually(func() bool { p := b.problem(at); return p != "" && strings.Contains(p, c.want) }, "%s: %s", at, c.want)
		require.NotContains(t, b.problem(at), "hunter2")
	}
	require.Equal(t, "web-gw.example web:1", b.has())
	b.put(key, manifest("web:2"))
	b.wait("web-gw.example web:2")
	b.eventually(func() bool { return b.problem(key) == "" }, "the problem is over")
}

// ConfigMaps and Secrets are there before the pods, and also without the server.
func TestObjects(t *testing.T) {
	b := newBench(t)
	b.put("configmaps.gw/example.default.c", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n")
	b.put("secrets.gw/example.default.s", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: v}\n")
	_, stop := b.start()
	b.eventually(func() bool { return b.submitted() > 0 }, "a snapshot")
	secret, err := b.store.Secret(t.Context(), "default", "s")
	require.NoError(t, err)
	require.Equal(t, "v", string(secret.Data["k"]))
	b.put("configmaps.gw/example.default.c", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: w}\n")
	b.eventually(func() bool {
		c, err := b.store.ConfigMap(t.Context(), "default", "c")
		return err == nil && c.Data["k"] == "w"
	}, "the object has changed")
	b.remove("secrets.gw/example.default.s")
	b.eventually(func() bool { _, err := b.store.Secret(t.Context(), "default", "s"); return err != nil }, "the object is gone")
	stop()
	b.stop()
	_, stop = b.start() // boots without the server
	defer stop()
	c, err := b.store.ConfigMap(t.Context(), "default", "c")
	require.NoError(t, err)
	require.Equal(t, "w", c.Data["k"])
	_, err = b.store.Secret(t.Context(), "default", "s")
	require.Error(t, err)
}

// Pods stay while the server is away, and changes meanwhile are seen afterwards, also if the server
// comes back with an older or a new bucket, whose revisions are lower.
func TestServerGone(t *testing.T) {
	b := newBench(t)
	for i := range 20 {
		b.put(key, manifest(fmt.Sprint("web:", i)))
	}
	bus, stop := b.start()
	defer stop()
	b.wait("web-gw.example web:19")
	for round := range 1 {
		b.stop()
		pod := &v1.Pod{}
		pod.Namespace, pod.Name, pod.UID = "default", "web-gw.example", "1"
		pod.Status.Message = fmt.Sprint(round, " ", 99)
		b.mu.Lock()
		b.known = []*v1.Pod{pod}
		b.mu.Unlock()
		for i := range 100 {
			bus.Reports().Set(pod, v1.PodStatus{Phase: v1.PodRunning, Message: fmt.Sprint(round, " ", i)})
		}
		require.Equal(t, fmt.Sprintf("web-gw.example web:%d", 19+round), b.has(), "the pods stay")
		b.serve()
		b.put(key, manifest(fmt.Sprint("web:", 20+round)))
		b.wait(fmt.Sprintf("web-gw.example web:%d", 20+round))
		b.eventually(func() bool {
			e, err := b.bucket("statuses").Get(t.Context(), natsbus.Key("pods", "gw.example", types.NamespacedName{Namespace: "default", Name: pod.Name}))
			var s natsbus.Status
			return err == nil && json.Unmarshal(e.Value(), &s) == nil && s.Status.Message == fmt.Sprint(round, " ", 99) && s.UID == "1"
		}, "the last status arrives")
	}
	b.stop()
	b.dir = t.TempDir() // the data are lost
	b.serve()
	b.eventually(func() bool { return strings.Contains(b.problem("source"), "bucket desired") }, "the bucket is missing")
	require.Equal(t, "web-gw.example web:20", b.has(), "the pods stay")
	b.buckets()
	b.put(key, manifest("new:1"))
	b.wait("web-gw.example new:1")
	b.eventually(func() bool { return b.told("web-gw.example") == "0 99" }, "the lost status is sent again")
}

// A status of a pod that was removed while no agent ran, and that of another node.
func TestStaleStatuses(t *testing.T) {
	b := newBench(t)
	for _, node := range []string{"gw.example", "gw.example2"} {
		_, err := b.bucket("statuses").Put(t.Context(), natsbus.Key("pods", node, types.NamespacedName{Namespace: "default", Name: "gone"}), []byte(`{"uid": "1"}`))
		require.NoError(t, err)
	}
	b.put(key, manifest("web:1"))
	_, stop := b.start()
	defer stop()
	b.eventually(func() bool {
		keys, err := b.bucket("statuses").Keys(t.Context())
		return err == nil && len(keys) == 1 && strings.Contains(keys[0], "gw/example2")
	}, "the stale status is removed")
}

// told returns the message of a status.
func (b *bench) told(pod string) string {
	e, err := b.bucket("statuses").Get(b.Context(), natsbus.Key("pods", "gw.example", types.NamespacedName{Namespace: "default", Name: pod}))
	var s natsbus.Status
	if err != nil || json.Unmarshal(e.Value(), &s) != nil {
		return ""
	}
	return s.Status.Message
}

// A bucket that is removed under the watch, and made again.
func TestBucketRemoved(t *testing.T) {
	b := newBench(t)
	b.put(key, manifest("web:1"))
	_, stop := b.start()
	defer stop()
	b.wait("web-gw.example web:1")
	require.NoError(t, b.admin.DeleteKeyValue(t.Context(), "desired"))
	_, err := b.admin.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "desired"})
	require.NoError(t, err)
	b.put(key, manifest("web:2"))
	b.wait("web-gw.example web:2")
}

func TestNew(t *testing.T) {
	_, err := natsbus.New(natsbus.Options{})
	require.ErrorContains(t, err, "is required")
}

func ExampleKey() {
	fmt.Println(natsbus.Key("pods", "gateway.example", types.NamespacedName{Namespace: "default", Name: "web"}))
	// Output: pods.gateway/example.default.web
}
