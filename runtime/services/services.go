// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
)

// Errors of New, Run and For.
var (
	// ErrOptions: an option is invalid. The error names the option.
	ErrOptions = errors.New("services: bad options")
	// ErrRunning: Run was called before.
	ErrRunning = errors.New("services: Run was called before")
	// ErrUnknown: the Services have not been read yet.
	ErrUnknown = errors.New("the Services of the cluster have not been read yet")
)

// patience is the longest wait of For for the first list.
const patience = 10 * time.Second

// ListWatcher reads the Services of all namespaces. client-go's CoreV1().Services("") implements
// it.
type ListWatcher interface {
	List(ctx context.Context, o metav1.ListOptions) (*v1.ServiceList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Options configure a Cache.
type Options struct {
	// Client reads Services. Required.
	Client ListWatcher
	// File is the absolute path of a file with the last known Services, for a start without an API
	// server. The file is replaced within about a second of a change, with mode 0600. Defaults to
	// none.
	File string
	// Random returns values in [0, 1), which spread the retries of many nodes. Calls may be
	// concurrent. Defaults to package math/rand/v2. A repeatable simulation sets its own function.
	Random func() float64
	// Logger receives failures to read Services, each once until the next success. Defaults to
	// none.
	Logger *zap.Logger
}

// Cache has the Services of a cluster in memory.
type Cache struct {
	client     ListWatcher
	file       string
	log        *zap.Logger
	random     func() float64
	started    atomic.Bool
	remembered bool          // the file had Services
	settled    chan struct{} // closed when the Services are known, or known to be unavailable
	settle     func()
	changed    signal.Signal // capacity 1
	mu         struct {
		sync.Mutex
		all  map[string]map[string]*v1.Service // by namespace and name
		told string                            // the last logged reason of a failure
	}
}

// New returns a Cache with the content of Options.File. An error names the invalid
// option.
func New(o Options) (*Cache, error) {
	if o.Client == nil {
		return nil, fmt.Errorf("%w: Options.Client is required", ErrOptions)
	}
	if o.File != "" && !filepath.IsAbs(o.File) {
		return nil, fmt.Errorf("%w: Options.File: %q is not absolute", ErrOptions, o.File)
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	s := &Cache{client: o.Client, file: o.File, log: o.Logger, random: o.Random, settled: make(chan struct{}), changed: signal.New()}
	s.settle = sync.OnceFunc(func() { close(s.settled) })
	s.mu.all = make(map[string]map[string]*v1.Service)
	if s.file != "" {
		s.remember()
	}
	return s, nil
}

// For returns the Services whose variables the containers of pod get: the Services of the pod's
// namespace, and kubernetes in namespace default. The caller must not modify the Services. They are
// in no particular order. For is a runtime.DefaultGeneratorOptions.Services.
//
// For a pod that is not from the API server, according to its annotation
// kubernetes.io/config.source, For returns the known Services. For other pods For waits for the
// first list. If the server does not answer, For returns the Services of the file. After ten
// seconds the error is ErrUnknown.
func (s *Cache) For(ctx context.Context, pod *v1.Pod) ([]*v1.Service, error) {
	if source := pod.Annotations[podfacts.AnnotationSource]; source == "" || source == podfacts.SourceAPI {
		if err := s.await(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := slices.Collect(maps.Values(s.mu.all[pod.Namespace]))
	if api := s.mu.all[metav1.NamespaceDefault]["kubernetes"]; api != nil && pod.Namespace != metav1.NamespaceDefault {
		seen = append(seen, api)
	}
	return seen, nil
}

func (s *Cache) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, ErrUnknown)
	defer cancel()
	select {
	case <-s.settled:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run follows the Services until ctx ends, and then returns nil. The known Services remain
// available. A second call returns ErrRunning.
func (s *Cache) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if s.file != "" {
		wg.Go(func() { s.keep(ctx) })
	}
	// client-go logs to the logger of the context, and to stderr without a logger. Failures are
	// logged by heard.
	silent := logr.Discard()
	server := &listing{Cache: s}
	defer server.lists.Close()
	reflector := cache.NewReflectorWithOptions(server, &v1.Service{}, &store{s}, cache.ReflectorOptions{
		Logger: &silent, Name: "keelson", TypeDescription: "services",
	})
	quiet := logr.NewContext(ctx, silent)
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		_ = reflector.ListAndWatchWithContext(quiet) // heard has seen the failures
		if time.Since(began) >= standing {
			failures = 0
		}
		_ = retry.Sleep(ctx, retry.Backoff(failures+1, firstPause, longestPause, s.random()))
	}
	return nil
}

// The wait after a failed round doubles from the first to the longest, unless the round lasted for
// standing. A random factor between 1 and 2 applies.
const (
	firstPause, longestPause = 800 * time.Millisecond, 30 * time.Second
	standing                 = time.Minute
)

// heard records the outcome of a request. A failure is logged once, until a success or another
// failure.
func (s *Cache) heard(err error) {
	if apierrors.IsForbidden(err) {
		s.changed.Notify()
		s.settle() // pods start without variables
	} else if err != nil && s.remembered {
		s.settle() // pods start with the Services of the file
	}
	text := ""
	if err != nil {
		text = reason(err)
	}
	s.mu.Lock()
	before := s.mu.told
	s.mu.told = text
	s.mu.Unlock()
	switch {
	case text == before:
	case text == "":
		s.log.Info("the Services of the API server can be read again")
	default:
		s.log.Warn("cannot read the Services of the API server; containers start with the last known variables", zap.Error(err))
	}
}

// reason returns a text that is equal for errors with the same cause.
func reason(err error) string {
	if r := apierrors.ReasonForError(err); r != metav1.StatusReasonUnknown {
		return string(r)
	}
	return "unreachable"
}
