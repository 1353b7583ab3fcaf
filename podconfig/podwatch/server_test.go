// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
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
	"k8s.io/apimachinery/pkg/types"
)

// event is a watch event in its wire form.
type event struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
	// version and node decide which watches receive it.
	version int
	node    string
}

// server implements the part of the API server's HTTP and JSON used by a reflector: list, watch,
// watch-list and bookmarks of pods. It can forget resource versions, and has faults set by the
// test. It is reached over in-memory pipes.
type server struct {
	conns chan net.Conn
	http  *http.Server
	ended chan error

	mu        sync.Mutex
	pods      map[types.UID]*v1.Pod
	events    []event
	version   int
	compacted int           // versions up to this one are forgotten
	changed   chan struct{} // closed when a field below pods changes
	down      bool          // connections are refused
	open      map[net.Conn]bool
	requests  []string // "list 0", "watch 7", "watch-list 7"
	selectors []string
	// fault, if not nil, may answer in place of the server.
	fault func(verb string, w http.ResponseWriter, r *http.Request) bool
	// noStream simulates an old server, which rejects watch-lists.
	noStream bool
	streams  int // open watches
}

func newServer(t *testing.T) *server {
	s := &server{pods: map[types.UID]*v1.Pod{}, version: 1, changed: make(chan struct{})}
	s.serve(s)
	t.Cleanup(func() {
		_ = s.http.Close()
		<-s.ended
	})
	return s
}

// serve starts answering at the other end of its pipes.
func (s *server) serve(h http.Handler) {
	s.conns, s.ended, s.open = make(chan net.Conn), make(chan error, 1), map[net.Conn]bool{}
	s.http = &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { s.ended <- s.http.Serve(s) }()
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
func (s *server) kill() { s.disconnect(true) }

// cut ends all connections. A client that connects again at once is not refused.
func (s *server) cut() { s.disconnect(false) }

func (s *server) disconnect(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
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

// compact forgets the history, so that every older resource version is gone.
func (s *server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted, s.events = s.version, nil
}

// set creates or changes a pod.
func (s *server) set(p *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "MODIFIED"
	if s.pods[p.UID] == nil {
		kind = "ADDED"
	}
	p = p.DeepCopy()
	s.version++
	p.ResourceVersion = strconv.Itoa(s.version)
	s.pods[p.UID] = p
	s.tell(kind, p)
}

func (s *server) remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid].DeepCopy()
	delete(s.pods, uid)
	s.version++
	p.ResourceVersion = strconv.Itoa(s.version)
	s.tell("DELETED", p)
}

// bookmark sends a bookmark to every watch.
func (s *server) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.tell("BOOKMARK", bookmarkAt(s.version))
}

func bookmarkAt(version int) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version)}}
}

func (s *server) tell(kind string, p *v1.Pod) {
	s.events = append(s.events, event{Type: kind, Object: typed(p), version: s.version, node: p.Spec.NodeName})
	close(s.changed)
	s.changed = make(chan struct{})
}

// typed adds the type metadata of a single object.
func typed(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.Kind, p.APIVersion = "Pod", "v1"
	return p
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	verb := "list"
	if q.Get("watch") == "true" || q.Get("watch") == "1" {
		verb = "watch"
		if q.Get("sendInitialEvents") == "true" {
			verb = "watch-list"
		}
	}
	s.mu.Lock()
	s.requests = append(s.requests, strings.TrimSpace(verb+" "+q.Get("resourceVersion")))
	s.selectors = append(s.selectors, q.Get("fieldSelector"))
	fault, noStream := s.fault, s.noStream
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case fault != nil && fault(verb, w, r):
	case r.URL.Path != "/api/v1/pods":
		fail(w, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, ""))
	case verb == "list":
		s.list(w, q.Get("fieldSelector"))
	case verb == "watch-list" && noStream:
		fail(w, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	default:
		s.watch(w, r, verb == "watch-list")
	}
}

// fail answers with a status.
func fail(w http.ResponseWriter, e *apierrors.StatusError) {
	status := e.ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

func (s *server) list(w http.ResponseWriter, selector string) {
	s.mu.Lock()
	list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	list.ResourceVersion = strconv.Itoa(s.version)
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		if p := s.pods[uid]; selects(selector, p.Spec.NodeName) {
			list.Items = append(list.Items, *p)
		}
	}
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(list)
}

func selects(selector, node string) bool {
	return selector == "" || selector == "spec.nodeName="+node || selector == "spec.nodeName!=" && node != ""
}

func (s *server) watch(w http.ResponseWriter, r *http.Request, initial bool) {
	q := r.URL.Query()
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	s.mu.Lock()
	if gone := from != 0 && from < s.compacted; gone {
		s.mu.Unlock()
		fail(w, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", from)))
		return
	}
	s.streams++
	var first []event
	if initial {
		for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
			first = append(first, event{Type: "ADDED", Object: typed(s.pods[uid]), node: s.pods[uid].Spec.NodeName})
		}
		from = s.version
		end := bookmarkAt(from)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		first = append(first, event{Type: "BOOKMARK", Object: typed(end)})
	}
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.streams--; s.mu.Unlock() }()
	s.stream(w, r, q.Get("fieldSelector"), from, first)
}

// stream sends the first events and then events after version from, until either side ends it.
func (s *server) stream(w http.ResponseWriter, r *http.Request, selector string, from int, first []event) {
	flush := http.NewResponseController(w)
	if flush.Flush() != nil {
		return
	}
	for next := first; ; {
		for _, e := range next {
			if e.Type != "BOOKMARK" && !selects(selector, e.node) {
				continue
			}
			if json.NewEncoder(w).Encode(e) != nil || flush.Flush() != nil {
				return
			}
		}
		s.mu.Lock()
		next = nil
		for _, e := range s.events {
			if e.version > from {
				next = append(next, e)
			}
		}
		from, next = s.version, slices.Clone(next)
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

// break_ sets the fault from now on.
func (s *server) break_(fault func(verb string, w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// asked returns the requests since the last call.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests
	s.requests = nil
	return r
}

func (s *server) openStreams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}
