// SPDX-License-Identifier: Apache-2.0

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

const (
	// DefaultPeriod is the interval between scans without hints, as in the kubelet.
	DefaultPeriod = 20 * time.Second
	// DefaultDebounce is the time without hints before a scan.
	DefaultDebounce = 100 * time.Millisecond
)

// Errors of New and Run.
var (
	// ErrConfig means an invalid Config; the error names the field.
	ErrConfig = errors.New("file source: bad config")
	// ErrRunning is returned by a second Run of a Source.
	ErrRunning = errors.New("file source: Run was called before")
)

// Hinter reports that files at a path may have changed, without details. Hints may be spurious, and
// a single hint may stand for any number of changes.
type Hinter interface {
	// Hints starts to watch path, a folder or file that need not exist. It returns after the watch
	// is armed: later changes cause a hint. The channel should have a buffer of a single hint; a
	// Hinter drops further hints instead of blocking.
	//
	// The Hinter closes the channel soon after ctx ends, after ending all goroutines and freeing
	// all resources of the watch. It closes the channel earlier if the watch has become useless,
	// for example because the folder was replaced. Then Hints is called again. After an error,
	// Hints is called again with a growing delay. Hints is called from a single goroutine, with at
	// most a single watch alive.
	Hints(ctx context.Context, path string) (<-chan struct{}, error)
}

// Config configures a Source.
type Config struct {
	// Path is a folder of manifests or a single manifest. It need not exist. Required. A relative
	// path is made absolute once, because the absolute path is part of the pods' identity.
	Path string
	// Decoder decodes a file into a pod. Its MaxBytes limits the size of a file. Required.
	Decoder *manifest.Decoder
	// Decode decodes a file into any number of pods, which have different names, in the place of
	// Decoder. It is called from the goroutine of Run or Scan. Kinds other than Pod are in package
	// podconfig/kinds. Defaults to Decoder.Pod.
	Decode func(data []byte, o manifest.Origin) ([]*v1.Pod, error)
	// Hinter reports changes at once. Defaults to none: changes are noticed within Period.
	Hinter Hinter
	// Period is the time between two scans without hints. Defaults to DefaultPeriod.
	Period time.Duration
	// Debounce is the time without hints before changed files are read. It is also the time for
	// which a file must be missing before its pod ends; a folder must be missing for ten times
	// Debounce. Constant hints postpone a scan by at most ten times Debounce. Defaults to
	// DefaultDebounce.
	Debounce time.Duration
	// Problem is called once with a *FileError for each new problem with a file or Path, and once
	// with nil at its end. It is always called from the goroutine of Run or Scan. Defaults to
	// Logger, at level warn for a problem and info for its end.
	Problem func(path string, err error)
	// DropInvalid ends the pod of a file whose manifest becomes invalid, as the kubelet does in a
	// folder. Defaults to keeping the pod of the last valid content while the file exists.
	DropInvalid bool
	// Logger defaults to none.
	Logger *zap.Logger
}

// Source is a podconfig.Source of static pods from files.
type Source struct {
	path     string
	limit    int64 // of the size of a file
	decode   func(data []byte, o manifest.Origin) ([]*v1.Pod, error)
	hinter   Hinter
	period   time.Duration
	debounce time.Duration
	waits    waits
	invalid  invalidPolicy
	report   reporter
	fs       fileSystem
	started  atomic.Bool // Run was called

	// The goroutine that calls Run, or Scan and Glance, owns all fields below.
	disk         disk
	files        table
	winners      map[string]string // paths by pod name at the last scan or glance
	firstScan    time.Time
	missingSince time.Time // of path itself
	single       bool      // path was a file when it last existed
	listed       listing   // the last listing
	settled      bool      // files are exactly the listed files
	last         Result
}

var _ podconfig.Source = (*Source)(nil)

// New returns a Source. It does not access the disk.
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
	s := &Source{path: path, limit: c.Decoder.Limit(), decode: c.Decode, hinter: c.Hinter,
		period: cmp.Or(c.Period, DefaultPeriod), debounce: cmp.Or(c.Debounce, DefaultDebounce),
		fs: system{}, disk: disk{root: path, hung: map[string]<-chan struct{}{}}, files: table{}, winners: map[string]string{}}
	if s.decode == nil {
		s.decode = func(data []byte, o manifest.Origin) ([]*v1.Pod, error) {
			pod, err := c.Decoder.Pod(data, o)
			return []*v1.Pod{pod}, err
		}
	}
	if c.DropInvalid {
		s.invalid = dropInvalid
	}
	s.waits = waits{file: s.debounce, folder: 10 * s.debounce, writer: 50 * s.debounce}
	s.report = reporter{told: map[subject]string{}, problem: c.Problem, log: cmp.Or(c.Logger, zap.NewNop())}
	return s, nil
}

// Name returns podconfig.SourceFile.
func (s *Source) Name() string { return podconfig.SourceFile }

// Path returns the absolute path of the folder or file.
func (s *Source) Path() string { return s.path }
