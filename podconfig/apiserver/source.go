// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/go-logr/logr"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig"
)

// DefaultTimeout is how long a list may take: what an API server itself allows by default.
const DefaultTimeout = time.Minute

// Errors of New and Run.
var (
	// ErrConfig is a Config that cannot work; the error names the field.
	ErrConfig = errors.New("apiserver source: bad config")
	// ErrRunning is a second Run of one Source.
	ErrRunning = errors.New("apiserver source: Run was called before")
)

// PodListWatcher reads the pods of all namespaces. client-go's CoreV1().Pods("") is one as it is.
type PodListWatcher interface {
	// List ends with ctx. A list has a resource version. Its pods are the source's to keep.
	List(ctx context.Context, o metav1.ListOptions) (*v1.PodList, error)
	// Watch returns once the server has agreed. The watch ends when it is stopped or ctx ends, and then closes its channel.
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Config of a Source.
type Config struct {
	// Pods is asked for the pods of NodeName, of all namespaces. Required.
	Pods PodListWatcher
	// NodeName is the node whose pods count: those with it as their spec.nodeName. Required.
	NodeName types.NodeName
	// NodeKnown returns when it makes sense to ask, as a rule once the node's own object is known, and with ctx's error when
	// ctx ends first. Any other error ends Run. Defaults to asking at once.
	NodeKnown func(ctx context.Context) error
	// Timeout is how long a list, or the first part of a watch-list, may take, and how much longer than it was asked for (5
	// to 10 minutes) a watch may last. Defaults to DefaultTimeout.
	Timeout time.Duration
	// WithoutWatchList makes the source list in pages and never try a watch-list, for clients that accept one and do not
	// mean it, as client-go's fake clientset. Defaults to a watch-list where the server offers it.
	WithoutWatchList bool
	// Problem is called once for each new kind of problem, with an *Error, and once with nil when all is well again; never
	// concurrently. Defaults to Logger: at level warn (that a resource version has expired: info), respectively info.
	Problem func(err error)
	// Logger defaults to none.
	Logger *zap.Logger
}

// Source is a podconfig.Source of the pods that an API server has bound to a node.
type Source struct {
	config  Config
	started atomic.Bool // by Run
}

var _ podconfig.Source = (*Source)(nil)

// New returns a Source. It asks nothing yet.
func New(c Config) (*Source, error) {
	if c.Pods == nil {
		return nil, fmt.Errorf("%w: Pods is nil", ErrConfig)
	}
	if faults := validation.IsDNS1123Subdomain(string(c.NodeName)); len(faults) > 0 {
		return nil, fmt.Errorf("%w: NodeName %q: %s", ErrConfig, c.NodeName, strings.Join(faults, "; "))
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("%w: Timeout %v must not be negative", ErrConfig, c.Timeout)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return &Source{config: c}, nil
}

// Name returns podconfig.SourceAPI.
func (s *Source) Name() string { return podconfig.SourceAPI }

// Run hands to out a Snapshot after each list, and an Upsert or a Remove of one pod for each event in between, until ctx
// ends; then it returns nil. An error of out, or of Config.NodeKnown, ends it, too. What the server does never ends it.
func (s *Source) Run(ctx context.Context, out podconfig.Sink) error {
	if !s.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	if s.config.NodeKnown != nil {
		err := s.config.NodeKnown(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("apiserver source: wait for node %s: %w", s.config.NodeName, err)
		}
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	// client-go logs what it meets through the context's logger, and to stderr if there is none. All of that is reported
	// here by its kind; and its lines may hold whole pods.
	silent := logr.Discard()
	running = logr.NewContext(running, silent)

	report := &reporter{problem: s.config.Problem, log: s.config.Logger, told: map[kind]bool{}}
	client := newClient(s.config, report)
	defer client.close()
	d := &deltas{ctx: running, out: out, stop: cancel}
	reflector := cache.NewReflectorWithOptions(client, &v1.Pod{}, d, cache.ReflectorOptions{
		Logger: &silent, Name: "keelson", TypeDescription: "pods",
	})
	repeat(running, func(ctx context.Context) {
		// What it returns is what the client or the sink has returned to it, and they have told.
		_ = reflector.ListAndWatchWithContext(ctx)
	})
	if ctx.Err() != nil {
		return nil
	}
	return d.err
}
