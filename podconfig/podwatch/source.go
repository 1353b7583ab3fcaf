// SPDX-License-Identifier: Apache-2.0

package podwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// requestTimeout is the maximum duration of a list and of the initial events of a watch-list, equal
// to an API server's default. A watch may exceed its requested duration (5 to 10 minutes) by
// requestTimeout.
const requestTimeout = time.Minute

// Errors of New and Run.
var (
	// ErrConfig means an invalid Config; the error names the field.
	ErrConfig = errors.New("podwatch: bad config")
	// ErrRunning is returned by a second Run of a Source.
	ErrRunning = errors.New("podwatch: Run was called before")
)

// PodListWatcher reads the pods of all namespaces. client-go's CoreV1().Pods("") implements it.
type PodListWatcher interface {
	// List returns when ctx ends. A list has a resource version. The source keeps the pods of lists
	// and watches and never edits them; nor must the PodListWatcher.
	List(ctx context.Context, o metav1.ListOptions) (*v1.PodList, error)
	// Watch returns after the server has accepted. When the watch is stopped or ctx ends, the watch
	// ends and closes its channel.
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Config configures a Source.
type Config struct {
	// Pods lists and watches the pods of NodeName in all namespaces. Required.
	Pods PodListWatcher
	// NodeName selects the pods by spec.nodeName. Required, unless Nodes is set.
	NodeName types.NodeName
	// Nodes selects the pods of several nodes, for a process that runs many nodes with a single watch.
	// The source drops the pods of a node if Nodes returns false for the node's name. If Nodes returns
	// true for the empty name, the source includes pods without a node. Defaults to NodeName alone.
	Nodes func(types.NodeName) bool
	// NodeKnown waits until the source may send requests, usually until the node's own object is
	// known. It returns ctx's error when ctx ends. Any other error ends Run. Defaults to no wait.
	NodeKnown func(ctx context.Context) error
	// WithoutWatchList makes the source list in pages and never try a watch-list, for clients that
	// accept a watch-list without support for it, such as client-go's fake clientset. Defaults to a
	// watch-list if the server supports it.
	WithoutWatchList bool
	// Random returns values in [0, 1) that spread the retries of many nodes. It may be called
	// concurrently. Defaults to package math/rand/v2. A repeatable simulation passes its own.
	Random func() float64
	// Problem is called with an *Error once for each new kind of problem, and with nil once all
	// problems have ended. Calls are never concurrent. Defaults to Logger, at level warn for a
	// problem (info for an expired resource version) and info for the end.
	Problem func(err error)
	// Logger defaults to none.
	Logger *zap.Logger
}

// Source is a podconfig.Source of the pods that an API server has bound to a node.
type Source struct {
	config  Config
	started atomic.Bool // Run was called
}

var _ podconfig.Source = (*Source)(nil)

// New returns a Source. It sends no request.
func New(c Config) (*Source, error) {
	if c.Pods == nil {
		return nil, fmt.Errorf("%w: Pods is nil", ErrConfig)
	}
	if c.Nodes != nil && c.NodeName != "" {
		return nil, fmt.Errorf("%w: NodeName and Nodes are both set", ErrConfig)
	}
	if faults := validation.IsDNS1123Subdomain(string(c.NodeName)); len(faults) > 0 && c.Nodes == nil {
		return nil, fmt.Errorf("%w: NodeName %q: %s", ErrConfig, c.NodeName, strings.Join(faults, "; "))
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	return &Source{config: c}, nil
}

// Name returns podconfig.SourceAPI.
func (s *Source) Name() string { return podconfig.SourceAPI }

// Run submits to out a Snapshot after each list, and an Upsert or Remove of a single pod for each
// event, until ctx ends. Then it returns nil. An error of out or Config.NodeKnown also ends Run.
// Failures of the server never end it.
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
			return fmt.Errorf("podwatch: wait for node %s: %w", s.config.NodeName, err)
		}
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	// client-go logs problems through the context's logger, and to stderr without a logger. The log
	// lines may contain whole pods. The source reports all problems by kind instead.
	silent := logr.Discard()
	running = logr.NewContext(running, silent)

	report := &reporter{problem: s.config.Problem, log: s.config.Logger, told: map[kind]bool{}}
	client := newClient(s.config, report)
	defer client.close()
	d := &deltas{ctx: running, out: out, stop: cancel}
	reflector := cache.NewReflectorWithOptions(client, &v1.Pod{}, d, cache.ReflectorOptions{
		Logger: &silent, Name: "keelson", TypeDescription: "pods",
	})
	repeat(running, s.config.Random, func(ctx context.Context) {
		// The returned error comes from the client or the sink, which have reported it.
		_ = reflector.ListAndWatchWithContext(ctx)
	})
	if ctx.Err() != nil {
		return nil
	}
	return d.err
}
