// SPDX-License-Identifier: Apache-2.0

package volumeapi_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// event is a watch event in the format on the wire.
type event struct {
	Type    string        `json:"type"`
	Object  metav1.Object `json:"object"`
	ref     objects.Ref
	version int
}

// server implements the part of the API server's HTTP and JSON that a node may use: get and watch
// of single objects by name. Its connections are pipes in memory, and tests inject faults.
type server struct {
	conns chan net.Conn
	http  *http.Server
	ended chan error

	mu      sync.Mutex
	objects map[objects.Ref]metav1.Object
	events  []event
	version int
	// cached is the version up to which watches send events; -1 for the latest version.
	cached  int
	changed chan struct{} // closed at each change of the fields below objects
	down    bool          // connections are refused
	open    map[net.Conn]bool
	asked   []string // "get ConfigMap a", "watch Secret b"
	watches int      // open watches
	busy    int      // requests under way without open watches
	most    int      // of busy
	// fault may answer instead of the server; nil for no faults.
	fault func(verb string, ref objects.Ref, w http.ResponseWriter, r *http.Request) bool
}

func newServer(t testing.TB) *server {
	s := &server{objects: map[objects.Ref]metav1.Object{}, version: 100, cached: -1, changed: make(chan struct{}),
		conns: make(chan net.Conn), ended: make(chan error, 1), open: map[net.Conn]bool{}}
	s.http = &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { s.ended <- s.http.Serve(s) }()
	t.Cleanup(func() {
		_ = s.http.Close()
		<-s.ended
	})
	return s
}

// Accept, Close and Addr make the server its own net.Listener.
func (s *server) Accept() (net.Conn, error) {
	c, ok := <-s.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (s *server) Close() error {
	defer func() { _ = recover() }() // closed already
	close(s.conns)
	return nil
}

func (s *server) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (s *server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	s.mu.Lock()
	down := s.down
	s.open[theirs] = true
	s.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	select {
	case s.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// kill ends all connections and refuses new ones until start.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	for c := range s.open {
		_ = c.Close()
	}
	s.open = map[net.Conn]bool{}
}

func (s *server) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// cut ends all connections.
func (s *server) cut() { s.kill(); s.start() }

func refOf(o metav1.Object) objects.Ref {
	kind := objects.ConfigMap
	if _, ok := o.(*v1.Secret); ok {
		kind = objects.Secret
	}
	return objects.Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// set creates or changes an object. The caller must not use o again.
func (s *server) set(o metav1.Object) {
	typed(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	what := "MODIFIED"
	if s.objects[refOf(o)] == nil {
		what = "ADDED"
	}
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[refOf(o)] = o
	s.tell(what, o)
}

func (s *server) remove(ref objects.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[ref]
	delete(s.objects, ref)
	s.version++
	switch gone := o.(type) {
	case *v1.ConfigMap:
		gone = gone.DeepCopy()
		o = gone
	case *v1.Secret:
		gone = gone.DeepCopy()
		o = gone
	}
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.tell("DELETED", o)
}

func (s *server) tell(what string, o metav1.Object) {
	s.events = append(s.events, event{Type: what, Object: o, ref: refOf(o), version: s.version})
	s.wake()
}

func (s *server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// lag hides later changes from watches until catchUp.
func (s *server) lag() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached = s.version
}

func (s *server) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached = -1
	s.wake()
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb, ref, ok := parse(r)
	s.mu.Lock()
	s.asked = append(s.asked, verb+" "+string(ref.Kind)+" "+ref.Name)
	s.busy++
	s.most = max(s.most, s.busy)
	fault := s.fault
	s.mu.Unlock()
	done := sync.OnceFunc(func() { s.mu.Lock(); s.busy--; s.mu.Unlock() })
	defer done()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case fault != nil && fault(verb, ref, w, r):
	case !ok:
		fail(w, apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, ref.Name, nil))
	case verb == "get":
		s.mu.Lock()
		o := s.objects[ref]
		s.mu.Unlock()
		if o == nil {
			fail(w, missing(ref))
			return
		}
		_ = json.NewEncoder(w).Encode(o)
	default:
		s.watch(w, r, ref, done)
	}
}

// parse reads a node's request for a single object.
func parse(r *http.Request) (verb string, ref objects.Ref, ok bool) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	if len(parts) < 2 {
		return "other", ref, false
	}
	ref.Namespace = parts[0]
	ref.Kind = map[string]objects.Kind{"configmaps": objects.ConfigMap, "secrets": objects.Secret}[parts[1]]
	if len(parts) == 3 {
		ref.Name = parts[2]
		return "get", ref, ref.Kind != ""
	}
	ref.Name, ok = strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	if r.URL.Query().Get("watch") == "true" && r.URL.Query().Get("resourceVersion") == "0" {
		return "watch", ref, ok && ref.Kind != ""
	}
	return "list", ref, false
}

func missing(ref objects.Ref) *apierrors.StatusError {
	resource := "configmaps"
	if ref.Kind == objects.Secret {
		resource = "secrets"
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, ref.Name)
}

// fail answers with a status.
func fail(w http.ResponseWriter, e *apierrors.StatusError) {
	status := e.ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// watch sends the object as in the cache, and all later changes, until either side ends the watch.
func (s *server) watch(w http.ResponseWriter, r *http.Request, ref objects.Ref, opened func()) {
	s.mu.Lock()
	from := s.version
	if s.cached >= 0 {
		from = s.cached
	}
	first := s.before(ref, from)
	s.watches++
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.watches--; s.mu.Unlock() }()
	flush := http.NewResponseController(w)
	opened()
	if flush.Flush() != nil {
		return
	}
	for next := first; ; {
		for _, e := range next {
			if json.NewEncoder(w).Encode(e) != nil || flush.Flush() != nil {
				return
			}
		}
		s.mu.Lock()
		to := s.version
		if s.cached >= 0 {
			to = s.cached
		}
		next = slices.DeleteFunc(slices.Clone(s.events), func(e event) bool { return e.ref != ref || e.version <= from || e.version > to })
		from = to
		changed := s.changed
		s.mu.Unlock()
		if len(next) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// before returns the event for the state of the object at a version. The lock is held.
func (s *server) before(ref objects.Ref, version int) (first []event) {
	for _, e := range s.events {
		if e.ref == ref && e.version <= version {
			first = []event{{Type: "ADDED", Object: e.Object}}
			if e.Type == "DELETED" {
				first = nil
			}
		}
	}
	return first
}

// typed adds the kind and API version, as an API server does for a single object.
func typed(o metav1.Object) {
	switch o := o.(type) {
	case *v1.ConfigMap:
		o.TypeMeta = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
	case *v1.Secret:
		o.TypeMeta = metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}
	}
}

// break_ sets the fault from now on.
func (s *server) break_(fault func(verb string, ref objects.Ref, w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// took returns the requests since the last call.
func (s *server) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.asked
	s.asked = nil
	return r
}

func (s *server) openWatches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches
}
