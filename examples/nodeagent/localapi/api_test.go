// SPDX-License-Identifier: Apache-2.0

package localapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/localapi"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// bed is an API over a list of pods.
type bed struct {
	*testing.T
	api    *localapi.API
	server *httptest.Server
	dir    string
	events localapi.EventLog

	mu   sync.Mutex
	pods []*v1.Pod
}

func newBed(t *testing.T, change ...func(*localapi.Options)) *bed {
	b := &bed{T: t, dir: t.TempDir()}
	opts := localapi.Options{
		NodeName: "n", Suffix: "-n", Events: &b.events,
		Pods: func() []*v1.Pod {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.pods
		},
		Manifests: &localapi.Folder{Path: b.dir, Decoder: &manifest.Decoder{NodeName: "n", Strict: true}},
	}
	for _, f := range change {
		f(&opts)
	}
	var err error
	b.api, err = localapi.New(opts)
	require.NoError(t, err)
	b.server = httptest.NewServer(b.api)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, b.api.Run(ctx)) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		b.server.CloseClientConnections()
		b.server.Close()
	})
	return b
}

// static returns a pod as a folder delivers it.
func static(name, uid string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name + "-n", UID: types.UID(uid), Labels: map[string]string{"app": name},
			Annotations: map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": uid},
		},
		Spec:   v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
}

func (b *bed) set(pods ...*v1.Pod) {
	b.mu.Lock()
	b.pods = pods
	b.mu.Unlock()
	b.api.Poke()
}

// ask sends a request, and returns the status code and the answer.
func (b *bed) ask(method, path, body string, header ...string) (int, string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.server.URL+path, strings.NewReader(body))
	require.NoError(b, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(b, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(b, err)
	return response.StatusCode, string(text)
}

// watch begins a watch, and returns a function that returns the next event as TYPE/NAME@VERSION.
func (b *bed) watch(query string) func() string {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.server.URL+"/api/v1/pods?watch=true&"+query, nil)
	require.NoError(b, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(b, err)
	b.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	return func() string {
		if !lines.Scan() {
			return "end"
		}
		var event struct {
			Type   string
			Object struct {
				Metadata metav1.ObjectMeta
				Reason   string
			}
		}
		require.NoError(b, json.Unmarshal(lines.Bytes(), &event))
		m := event.Object.Metadata
		return strings.TrimSpace(fmt.Sprintf("%s %s%s%s %s", event.Type, m.Name, event.Object.Reason, m.Annotations["k8s.io/initial-events-end"], m.UID))
	}
}

const pods = "/api/v1/namespaces/default/pods"

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

func TestWatchSendsTheStateAndThenChanges(t *testing.T) {
	b := newBed(t)
	b.set(static("a", "1"), static("b", "1"))
	next := b.watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&fieldSelector=metadata.name%3Da")
	require.Equal(t, "ADDED a 1", next())
	require.Equal(t, "BOOKMARK true", next(), "kubectl wait of 1.35 and newer waits for the bookmark")
	ready := static("a", "1")
	ready.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	b.set(ready, static("b", "2"))
	require.Equal(t, "MODIFIED a 1", next())
	b.set(static("a", "2"))
	require.Equal(t, "DELETED a 1", next(), "another UID is another pod")
	require.Equal(t, "ADDED a 2", next())
	b.set()
	require.Equal(t, "DELETED a 2", next())
}

func TestWatchContinuesAtAVersion(t *testing.T) {
	b := newBed(t)
	b.set(static("a", "1"))
	_, text := b.ask("GET", "/api/v1/pods", "")
	var list v1.PodList
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Len(t, list.Items, 1)
	next := b.watch("resourceVersion=" + list.ResourceVersion)
	b.set(static("a", "1"), static("b", "1"))
	require.Equal(t, "ADDED b 1", next())

	require.Equal(t, "ERROR Expired", b.watch("resourceVersion=17")(), "a version of an earlier agent")
	require.Equal(t, "end", b.watch("timeoutSeconds=1&resourceVersion="+list.ResourceVersion+"&labelSelector=app%3Dc")())
	code, _ := b.ask("GET", "/api/v1/pods?watch=true&resourceVersion=x", "")
	require.Equal(t, http.StatusBadRequest, code)
}

func TestTablesAndSelectors(t *testing.T) {
	b := newBed(t)
	waiting := static("b", "1")
	waiting.Status = v1.PodStatus{Phase: v1.PodPending, ContainerStatuses: []v1.ContainerStatus{{RestartCount: 3, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}}
	b.set(static("a", "1"), waiting)
	_, text := b.ask("GET", pods+"?labelSelector=app%3Db", "", "Accept", asTable)
	var table metav1.Table
	require.NoError(t, json.Unmarshal([]byte(text), &table))
	require.Len(t, table.Rows, 1)
	require.Equal(t, []any{"b", "0/1", "CrashLoopBackOff", "3", "<unknown>"}, table.Rows[0].Cells[:5])
	_, text = b.ask("GET", pods+"?fieldSelector=status.phase%3DRunning", "", "Accept", asTable)
	require.NoError(t, json.Unmarshal([]byte(text), &table))
	require.Equal(t, "a", table.Rows[0].Cells[0])
	code, text := b.ask("GET", pods+"?fieldSelector=spec.colour%3Dred", "")
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, text, "field label not supported: spec.colour")
	code, _ = b.ask("GET", pods+"/a-n", "")
	require.Equal(t, http.StatusOK, code, "the full name is a name, too")
	code, text = b.ask("PATCH", pods+"/a/ephemeralcontainers", "{}")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, text, `"details":{}`, "kubectl debug panics without details")
}

const web = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"i:1"}]}}`

func TestApplyWritesManifests(t *testing.T) {
	var file string
	b := newBed(t, func(o *localapi.Options) {
		file = filepath.Join(o.Manifests.Path, "default.web.applied.json")
		o.Pods = func() []*v1.Pod { // as the folder's source and the agent do
			data, err := os.ReadFile(file)
			if err != nil {
				return nil
			}
			pod, err := o.Manifests.Decoder.Pod(data, manifest.Origin{Kind: manifest.OriginFile, Location: file})
			if !assert.NoError(t, err) {
				return nil
			}
			pod.Annotations["kubernetes.io/config.source"] = "file"
			return []*v1.Pod{pod}
		}
	})
	code, _ := b.ask("POST", pods+"?dryRun=All", web)
	require.Equal(t, http.StatusCreated, code)
	require.NoFileExists(t, file)
	patch := func(kind, body string) (code int) {
		code, text := b.ask("PATCH", pods+"/web", body, "Content-Type", kind)
		require.Less(t, code, 300, text)
		return code
	}
	require.Equal(t, http.StatusCreated, patch("application/apply-patch+yaml", web))
	code, text := b.ask("POST", pods, web)
	require.Equal(t, http.StatusConflict, code, text)
	require.Contains(t, text, "AlreadyExists")
	patch("application/strategic-merge-patch+json", `{"spec":{"containers":[{"name":"main","image":"i:2"}]},"metadata":{"resourceVersion":"7","labels":{"a":"b"}}}`)
	patch("application/merge-patch+json", `{"metadata":{"labels":{"a":null,"c":"d"}}}`)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(data), "resourceVersion")
	require.Contains(t, string(data), "i:2")
	require.Contains(t, string(data), `"c": "d"`)
	require.NotContains(t, string(data), `"a": "b"`)

	code, _ = b.ask("DELETE", pods+"/web", `{"propagationPolicy":"Background"}`)
	require.Equal(t, http.StatusOK, code)
	require.NoFileExists(t, file)
}

func TestApplyRefuses(t *testing.T) {
	b := newBed(t)
	own := filepath.Join(b.dir, "own.yaml")
	require.NoError(t, os.WriteFile(own, []byte(strings.ReplaceAll(web, "web", "own")), 0o600))
	b.set(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "remote"}})
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "", strings.Replace(web, "image", "imagee", 1), `strict decoding error: unknown field \"spec.containers[0].imagee\"`},
		{"POST", "", strings.Replace(web, "i:1", "", 1), "image"},
		{"POST", "", strings.Replace(web, "Pod", "Job", 1), "not a Pod"},
		{"POST", "", strings.Replace(web, "web", "../../web", 1), "metadata.name"},
		{"POST", "", strings.Replace(web, `"name":"web"`, `"name":"web","namespace":"../x"`, 1), "namespace"},
		{"POST", "", "[", "not valid"},
		{"POST", "", web + "\n---\n" + web, "documents"},
		{"POST", "", strings.Replace(web, `"name":"web"`, `"generateName":"web"`, 1), "generateName"},
		{"PUT", "/web", web, "not found"},
		{"PATCH", "/own", `{}`, own + ": edit that file"},
		{"PATCH", "/remote", `{}`, "change the pod where it was created"},
		{"DELETE", "/none", "", "not found"},
	} {
		code, text := b.ask(c.method, pods+c.path, c.body, "Content-Type", "application/merge-patch+json")
		assert.GreaterOrEqual(t, code, 400, c.body)
		assert.Contains(t, text, c.want, c.body)
	}
	// The pod of a file cannot be applied under the name of another pod.
	code, text := b.ask("PATCH", pods+"/other", strings.ReplaceAll(web, "web", "own"), "Content-Type", "application/apply-patch+yaml")
	assert.Equal(t, http.StatusBadRequest, code)
	assert.Contains(t, text, "the name of the object (own) does not match the name on the URL (other)")
	files, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing was written")
}

// sink receives the changes of a source as text.
type sink chan string

func (s sink) Submit(_ context.Context, c podconfig.Change) error {
	text := c.Kind().String()
	for _, pod := range c.Pods() {
		text += fmt.Sprintf(" %s=%s", pod.UID, pod.Labels["v"])
	}
	for _, uid := range c.UIDs() {
		text += " " + string(uid)
	}
	s <- text
	return nil
}

func TestDeletionOfAPodFromAFileRestartsIt(t *testing.T) {
	version := func(v string) *v1.Pod {
		pod := static("a", "1")
		pod.Labels["v"] = v
		return pod
	}
	changes := make(chan podconfig.Change)
	var restarts localapi.Restarts
	source := restarts.Sources(podconfig.SourceFunc("file", func(ctx context.Context, out podconfig.Sink) error {
		for {
			select {
			case c := <-changes:
				if err := out.Submit(ctx, c); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	}))[0]
	out := make(sink)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, source.Run(ctx, out)) })
	defer wg.Wait()
	defer cancel()
	b := newBed(t, func(o *localapi.Options) { o.Restarts = &restarts })
	changes <- podconfig.Snapshot(version("1"))
	require.Equal(t, "Snapshot 1=1", <-out)
	b.set(version("1"))

	answer := make(chan string, 1)
	wg.Go(func() {
		_, text := b.ask("DELETE", pods+"/a", "")
		answer <- text
	})
	require.Equal(t, "Remove 1", <-out)
	changes <- podconfig.Snapshot(version("2"))
	require.Equal(t, "Snapshot", <-out, "the pod stays away until it has ended")
	require.Empty(t, answer)
	b.set()
	require.Equal(t, "Upsert 1=2", <-out, "the newest content comes back")
	require.Contains(t, <-answer, `"uid":"ended"`, "kubectl delete does not wait for the new pod")

	b.set(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "remote", Annotations: map[string]string{"kubernetes.io/config.source": "api"}}})
	code, text := b.ask("DELETE", pods+"/remote", "")
	require.Equal(t, http.StatusForbidden, code, text)
}

func TestEventsCount(t *testing.T) {
	b := newBed(t)
	ref := &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "a-n", UID: "1"}
	b.events.Event(ref, "Normal", "Pulled", "x")
	b.events.Event(ref, "Warning", "BackOff", "y")
	b.events.Event(ref, "Normal", "Pulled", "x")
	_, text := b.ask("GET", "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Da,involvedObject.uid%3D1", "")
	var list v1.EventList
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Len(t, list.Items, 2)
	counts := map[string]int32{}
	for _, e := range list.Items {
		counts[e.Reason] = e.Count
	}
	require.Equal(t, map[string]int32{"Pulled": 2, "BackOff": 1}, counts)
}

func TestSocketAndTokens(t *testing.T) {
	b := newBed(t)
	dir, err := os.MkdirTemp("", "api")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sub", "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	stale.Close()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.Rename(filepath.Join(dir, "s"), path))
	l, err := localapi.Listen(path, "no-such-group")
	require.NoError(t, err, "a stale socket is replaced")
	_, err = localapi.Listen(path, "")
	require.ErrorIs(t, err, localapi.ErrSocketInUse)
	_, err = localapi.Listen(filepath.Join(dir, strings.Repeat("x", 200)), "")
	require.ErrorIs(t, err, localapi.ErrSocketPath)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	tokens := localapi.NewTokens()
	mux := http.NewServeMux()
	mux.Handle("POST /token", tokens)
	mux.Handle("/", b.api)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- localapi.Serve(ctx, l, localapi.Peers("", mux)) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	response, err := client.Post("http://n/token", "", nil)
	require.NoError(t, err)
	var credential struct{ Status struct{ Token string } }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&credential))
	response.Body.Close()
	cancel()
	require.NoError(t, <-served)
	client.CloseIdleConnections()

	guarded := httptest.NewServer(tokens.Guard(b.api))
	defer guarded.Close()
	for header, want := range map[string]int{
		"Bearer " + credential.Status.Token: http.StatusOK, "Bearer x": http.StatusUnauthorized, "": http.StatusUnauthorized,
		"Bearer " + credential.Status.Token[1:]: http.StatusUnauthorized,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, guarded.URL+"/api/v1/pods", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", header)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		response.Body.Close()
		assert.Equal(t, want, response.StatusCode, header)
	}
	recorder := httptest.NewRecorder()
	localapi.Peers("", b.api).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/version", nil))
	require.Equal(t, http.StatusForbidden, recorder.Code, "a connection without a peer is refused")
}

func TestNewNamesTheField(t *testing.T) {
	_, err := localapi.New(localapi.Options{})
	require.ErrorContains(t, err, "NodeName")
	_, err = localapi.New(localapi.Options{NodeName: "n"})
	require.ErrorContains(t, err, "Pods")
}
