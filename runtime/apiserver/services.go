// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
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

// Errors of NewServices, Run and For.
var (
	// ErrOptions is an option that cannot be used; the error names it.
	ErrOptions = errors.New("apiserver: bad options")
	// ErrRunning is a second Run.
	ErrRunning = errors.New("apiserver: Run was called before")
	// ErrUnknown is that the Services have not been read yet.
	ErrUnknown = errors.New("the Services of the cluster have not been read yet")
)

// patience is how long For waits for the first list.
const patience = 10 * time.Second

// ListWatcher reads the Services of all namespaces. client-go's CoreV1().Services("") is one as it is.
type ListWatcher interface {
	List(ctx context.Context, o metav1.ListOptions) (*v1.ServiceList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// ServicesOptions are the options of NewServices.
type ServicesOptions struct {
	// Client reads Services. Required.
	Client ListWatcher
	// File keeps what is known, for the next start without an API server; absolute. It is replaced within a second or so of
	// a change, with mode 0600. Defaults to none.
	File string
	// Random is in [0, 1) and spreads the retries of many nodes. It may be called by several
	// goroutines. Defaults to package math/rand/v2; a simulation that can be repeated has its own.
	Random func() float64
	// Logger is told when Services cannot be read, once until they can be. Defaults to nobody.
	Logger *zap.Logger
}

// Services knows the Services of a cluster from memory.
type Services struct {
	client     ListWatcher
	file       string
	log        *zap.Logger
	random     func() float64
	started    atomic.Bool
	remembered bool          // of the file
	settled    chan struct{} // closed when it is known what there is, or that nobody will say
	settle     func()
	changed    signal.Signal // capacity 1
	mu         struct {
		sync.Mutex
		all  map[string]map[string]*v1.Service // by namespace and name
		told string                            // why they cannot be read, as logged
	}
}

// NewServices returns Services that know what is in ServicesOptions.File. An error names the option that is wrong.
func NewServices(o ServicesOptions) (*Services, error) {
	if o.Client == nil {
		return nil, fmt.Errorf("%w: ServicesOptions.Client is required", ErrOptions)
	}
	if o.File != "" && !filepath.IsAbs(o.File) {
		return nil, fmt.Errorf("%w: ServicesOptions.File: %q is not absolute", ErrOptions, o.File)
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	s := &Services{client: o.Client, file: o.File, log: o.Logger, random: o.Random, settled: make(chan struct{}), changed: signal.New()}
	s.settle = sync.OnceFunc(func() { close(s.settled) })
	s.mu.all = make(map[string]map[string]*v1.Service)
	if s.file != "" {
		s.remember()
	}
	return s, nil
}

// For returns the Services whose variables the containers of pod get: the Services of its namespace, and kubernetes in namespace
// default. They are not to be written to, and in no particular order. It fits runtime.DefaultGeneratorOptions.Services.
//
// A pod that is not from the API server, by its annotation kubernetes.io/config.source, has what is known; others wait for
// the first list, or until the server does not answer and the file is what is known. After ten seconds the error is
// ErrUnknown.
func (s *Services) For(ctx context.Context, pod *v1.Pod) ([]*v1.Service, error) {
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

func (s *Services) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, ErrUnknown)
	defer cancel()
	select {
	case <-s.settled:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run follows the Services until ctx ends; then it returns nil. What is known is still given out after that. There is one Run
// per Services.
func (s *Services) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if s.file != "" {
		wg.Go(func() { s.keep(ctx) })
	}
	// client-go logs through the context's logger, and to stderr if there is none. What fails is logged here.
	silent := logr.Discard()
	server := &listing{Services: s}
	defer server.close()
	reflector := cache.NewReflectorWithOptions(server, &v1.Service{}, &store{s}, cache.ReflectorOptions{
		Logger: &silent, Name: "keelson", TypeDescription: "services",
	})
	quiet := logr.NewContext(ctx, silent)
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		_ = reflector.ListAndWatchWithContext(quiet) // what failed was heard
		if time.Since(began) >= standing {
			failures = 0
		}
		_ = retry.Sleep(ctx, retry.Backoff(failures+1, firstPause, longestPause, s.random()))
	}
	return nil
}

// The wait after a round that failed: it doubles from the first to the longest, unless the round lasted, and is up to
// twice as long by chance.
const (
	firstPause, longestPause = 800 * time.Millisecond, 30 * time.Second
	standing                 = time.Minute
)

// heard notes how a request ended; what goes wrong is logged once, until it goes well or wrong differently.
func (s *Services) heard(err error) {
	if apierrors.IsForbidden(err) {
		s.poke()
		s.settle() // pods go without
	} else if err != nil && s.remembered {
		s.settle() // pods go with that
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
		s.log.Warn("cannot read the Services of the API server; containers start with the variables of what was known", zap.Error(err))
	}
}

// reason is what errors of one cause have in common.
func reason(err error) string {
	if r := apierrors.ReasonForError(err); r != metav1.StatusReasonUnknown {
		return string(r)
	}
	return "unreachable"
}
