// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig"
)

const (
	// DefaultDelay is how long changes are gathered before they are written.
	DefaultDelay = time.Second
	// DefaultStatusDelay is how long changes of nothing but statuses are.
	DefaultStatusDelay = time.Minute
)

// Errors of New and Run.
var (
	// ErrOptions: the Options cannot work; the error names the field.
	ErrOptions = errors.New("checkpoint: bad options")
	// ErrRunning: a second Run of one Writer.
	ErrRunning = errors.New("checkpoint: Run was called before")
)

// Holder knows the pods. *podconfig.Store is one.
type Holder interface {
	// Pods yields source and pod of all that there is. The Writer reads the pods, in the goroutine of Save, and does not
	// keep them.
	Pods() iter.Seq2[string, *v1.Pod]
}

// Options of a Writer. Path and Pods are required.
type Options struct {
	// Path is the file. Its folder must exist, and should be the agent's alone. Beside the file, for a moment or after a
	// crash, there is one of the same name with ".tmp" behind. A relative path is made absolute once.
	Path string
	// Pods is where the pods come from.
	Pods Holder
	// Sources are those whose pods are written. Defaults to all. A source that is on the node itself, such as a folder,
	// needs no checkpoint, but it does no harm: a manifest that is gone ends its pod with the folder's first snapshot.
	Sources []string
	// MaxBytes is how large the checkpoint may become; a larger one is not written. Defaults to DefaultMaxBytes.
	MaxBytes int64
	// Delay is for how long changes are gathered before they are written: there is at most one write per Delay, however
	// many changes. Defaults to DefaultDelay.
	Delay time.Duration
	// StatusDelay is the same for changes of statuses alone, which are many and mean little: a status is worth writing in
	// time only if it is a pod's last, and that is (phase Succeeded or Failed: Delay). Defaults to DefaultStatusDelay.
	StatusDelay time.Duration
	// Problem is told once about each new problem with writing, a *FileError, and once with nil when it is over, always
	// from the goroutine of Run. Defaults to Logger, at level warn respectively info.
	Problem func(err error)
	// Logger defaults to none.
	Logger *zap.Logger
}

// Writer writes a checkpoint whenever what it is told of changes it. Note and Tee are safe for concurrent use, Save and
// Run are not.
type Writer struct {
	options Options
	started atomic.Bool // by Run
	// soon and late hold a token when there is something to write, within Delay respectively StatusDelay.
	soon, late chan struct{}
	written    [sha256.Size]byte // hash of what the file holds; zero if nobody knows
}

// New returns a Writer. It touches no file yet.
func New(o Options) (*Writer, error) {
	switch {
	case o.Path == "":
		return nil, fmt.Errorf("%w: Path is empty", ErrOptions)
	case o.Pods == nil:
		return nil, fmt.Errorf("%w: Pods is nil", ErrOptions)
	case slices.Contains(o.Sources, ""):
		return nil, fmt.Errorf("%w: Sources has an empty name", ErrOptions)
	case o.MaxBytes < 0:
		return nil, fmt.Errorf("%w: MaxBytes %d is negative", ErrOptions, o.MaxBytes)
	case o.Delay < 0, o.StatusDelay < 0:
		return nil, fmt.Errorf("%w: Delay %v and StatusDelay %v must not be negative", ErrOptions, o.Delay, o.StatusDelay)
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: Path %q: %w", ErrOptions, o.Path, err)
	}
	o.Path = path
	o.Sources = slices.Clone(o.Sources)
	setDefault(&o.MaxBytes, DefaultMaxBytes)
	setDefault(&o.Delay, DefaultDelay)
	setDefault(&o.StatusDelay, DefaultStatusDelay)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return &Writer{options: o, soon: make(chan struct{}, 1), late: make(chan struct{}, 1)}, nil
}

func setDefault[T ~int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Save writes what the Holder holds now, unless the file holds it already. An error is a *FileError; then the file is
// what it was, or, if Op is "sync", holds the new content but may lose it in a power cut. Save must not be called
// concurrently with itself or Run.
func (w *Writer) Save() error {
	data, err := encode(w.options.Pods.Pods(), w.options.Sources, w.options.MaxBytes)
	if err != nil {
		return fileError(w.options.Path, "write", err)
	}
	sum := sha256.Sum256(data)
	if w.holds(sum) {
		return nil
	}
	w.written = [sha256.Size]byte{}
	if err := replace(w.options.Path, data); err != nil {
		return err
	}
	w.written = sum
	return nil
}

// holds tells whether the file holds content of this hash already, as far as that is cheap to know: the first time the
// file is read, later it is enough that nobody removed it.
func (w *Writer) holds(sum [sha256.Size]byte) bool {
	if w.written == ([sha256.Size]byte{}) {
		data, err := load(w.options.Path, w.options.MaxBytes)
		return err == nil && sha256.Sum256(data) == sum
	}
	_, err := os.Lstat(w.options.Path)
	return err == nil && w.written == sum
}

// Tee returns a function for podconfig.Run that hands an update on and then notes it.
func (w *Writer) Tee(next func(context.Context, podconfig.Update) error) func(context.Context, podconfig.Update) error {
	return func(ctx context.Context, u podconfig.Update) error {
		source, much := u.Source, urgencyOf(u) // next takes the update over
		if err := next(ctx, u); err != nil {
			return err
		}
		w.note(source, much)
		return nil
	}
}

// Note says that the Holder has changed, by an update that it gave. It never blocks.
func (w *Writer) Note(u podconfig.Update) { w.note(u.Source, urgencyOf(u)) }

func (w *Writer) note(source string, u urgency) {
	if len(w.options.Sources) > 0 && !slices.Contains(w.options.Sources, source) {
		return
	}
	wake := w.soon
	if u == canWait {
		wake = w.late
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}
