// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

const (
	// DefaultPeriod is how often the files are looked at without any hint, as in the kubelet.
	DefaultPeriod = 20 * time.Second
	// DefaultDebounce is how long the files must be quiet before they are read after a hint.
	DefaultDebounce = 100 * time.Millisecond
)

// Errors of New and Run.
var (
	// ErrConfig is a Config that cannot work; the error names the field.
	ErrConfig = errors.New("file source: bad config")
	// ErrRunning is a second Run of one Source.
	ErrRunning = errors.New("file source: Run was called before")
)

// Hinter tells that something may have changed at a path, never what: hints may be too many, and one may stand for any
// number of changes.
type Hinter interface {
	// Hints begins to watch path, a folder or file that need not exist, and returns once the watch is armed: later
	// changes give a hint. The channel should have room for one hint and is never blocked on.
	//
	// The channel is closed, after every goroutine and resource of the watch is gone, soon after ctx ends, or earlier if
	// the watch is worth nothing any more, for example because the folder was replaced; Hints is then called anew. An
	// error means the same and is retried with a growing delay. Hints is called from one goroutine, with no more than one
	// watch alive at a time.
	Hints(ctx context.Context, path string) (<-chan struct{}, error)
}

// HinterFunc makes a Hinter of a function.
type HinterFunc func(ctx context.Context, path string) (<-chan struct{}, error)

// Hints calls f.
func (f HinterFunc) Hints(ctx context.Context, path string) (<-chan struct{}, error) {
	return f(ctx, path)
}

// Config of a Source.
type Config struct {
	// Path is a folder of manifests or a single one. It need not exist. Required; a relative path is made absolute once,
	// because the absolute one is part of the identity of the pods.
	Path string
	// Decoder turns a file's bytes into a pod. Required.
	Decoder *manifest.Decoder
	// Hinter makes changes noticed at once. Defaults to none: they are noticed within Period.
	Hinter Hinter
	// Period is the time between two looks at the files without any hint. Defaults to DefaultPeriod.
	Period time.Duration
	// Debounce is how long no hint must have come before changed files are read, and for how long a file must have been
	// gone before its pod is; a folder's must have been gone for ten times that. A constant stream of hints puts reading
	// off for at most ten times Debounce. Defaults to DefaultDebounce.
	Debounce time.Duration
	// Problem is called once for each new problem with a file or with Path itself, with a *FileError, and once with nil
	// when it is over, always from the goroutine that runs Run or Scan. Defaults to Logger: at level warn, respectively
	// info.
	Problem func(path string, err error)
	// DropInvalid ends the pod of a file that is not a valid manifest any more, as the kubelet does with those of a
	// folder. Defaults to keeping the pod of the last good content as long as the file exists.
	DropInvalid bool
	// Logger defaults to none.
	Logger *zap.Logger
}

// Source is a podconfig.Source of static pods from files.
type Source struct {
	path     string
	decoder  *manifest.Decoder
	hinter   Hinter
	period   time.Duration
	debounce time.Duration
	waits    waits
	invalid  invalidPolicy
	report   reporter
	log      *zap.Logger
	started  atomic.Bool // by Run

	// All below is owned by the goroutine that runs Run, or calls Scan and Glance.
	files        table
	winners      map[string]string // paths by pod name, of the last look
	firstScan    time.Time
	missingSince time.Time // of path itself
	single       bool      // path was a file when it was last there
	listed       listing   // by the last look
	settled      bool      // files is what was listed, neither more nor less
	last         Result
}

var _ podconfig.Source = (*Source)(nil)

// New returns a Source. It reads nothing yet.
func New(c Config) (*Source, error) {
	if c.Path == "" {
		return nil, fmt.Errorf("%w: Path is empty", ErrConfig)
	}
	if err := c.Decoder.Check(); err != nil {
		return nil, fmt.Errorf("%w: Decoder: %w", ErrConfig, err)
	}
	if c.Period < 0 || c.Debounce < 0 {
		return nil, fmt.Errorf("%w: Period %v and Debounce %v must not be negative", ErrConfig, c.Period, c.Debounce)
	}
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: Path %q: %w", ErrConfig, c.Path, err)
	}
	s := &Source{path: path, decoder: c.Decoder, hinter: c.Hinter, period: c.Period, debounce: c.Debounce,
		log: c.Logger, files: table{}, winners: map[string]string{}}
	if s.period == 0 {
		s.period = DefaultPeriod
	}
	if s.debounce == 0 {
		s.debounce = DefaultDebounce
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	if c.DropInvalid {
		s.invalid = dropInvalid
	}
	s.waits = waits{file: s.debounce, folder: 10 * s.debounce, writer: 50 * s.debounce}
	s.report = reporter{told: map[subject]string{}, problem: c.Problem, log: s.log}
	return s, nil
}

// Name returns podconfig.SourceFile.
func (s *Source) Name() string { return podconfig.SourceFile }

// Path returns the absolute path that is looked at.
func (s *Source) Path() string { return s.path }
