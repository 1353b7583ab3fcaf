// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig"
)

// Errors of New and Run.
var (
	// ErrOptions means invalid Options; the error names the field.
	ErrOptions = errors.New("checkpoint: bad options")
	// ErrRunning is returned by a second Run of a Writer.
	ErrRunning = errors.New("checkpoint: Run was called before")
)

// Holder provides the pods to save. *podconfig.Store implements it.
type Holder interface {
	// Pods yields the source and pod of every pod. The Writer reads the pods in the goroutine of
	// Save, and does not keep them.
	Pods() iter.Seq2[string, *v1.Pod]
}

// Options configure a Writer. Path and Pods are required.
type Options struct {
	// Path is the path of the checkpoint. Its folder must exist, and should be writable only by the
	// agent. During a write, or after a crash, the folder also contains a file with the suffix
	// ".tmp". A relative path is made absolute once.
	Path string
	// Pods provides the pods.
	Pods Holder
	// Sources are the names of the sources whose pods are written. Defaults to all sources. A local
	// source, such as a folder, needs no checkpoint, and may be included: the first snapshot of the
	// folder removes pods whose manifest is missing.
	Sources []string
	// Logger receives each new write problem once, at level warn, and its end at level info.
	// Defaults to none.
	Logger *zap.Logger
}

// Writer writes a checkpoint after the updates of Tee. Tee is safe for concurrent use; Save and Run
// are not.
type Writer struct {
	options Options
	started atomic.Bool // Run was called
	// soon and late hold a token if a write is due within writeDelay or statusDelay, respectively.
	soon, late signal.Signal
	// doubt: the last write failed, so that the file's content may not be synced to the disk.
	doubt bool
}

// New returns a Writer. It does not access the disk.
func New(o Options) (*Writer, error) {
	switch {
	case o.Path == "":
		return nil, fmt.Errorf("%w: Path is empty", ErrOptions)
	case o.Pods == nil:
		return nil, fmt.Errorf("%w: Pods is nil", ErrOptions)
	case slices.Contains(o.Sources, ""):
		return nil, fmt.Errorf("%w: Sources has an empty name", ErrOptions)
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: Path %q: %w", ErrOptions, o.Path, err)
	}
	o.Path = path
	o.Sources = slices.Clone(o.Sources)
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return &Writer{options: o, soon: signal.New(), late: signal.New()}, nil
}

// Save writes the pods of the Holder, unless the file already has the same content. Save reads the
// file each time, because another process may have replaced the file. An error is a *FileError.
// After an error the file is unchanged, or has the new content without a sync to the disk; the next
// Save then writes in any case. Save must not be called concurrently with itself or Run.
func (w *Writer) Save() error {
	data, err := encode(w.options.Pods.Pods(), w.options.Sources, MaxBytes)
	if err != nil {
		return fileError(w.options.Path, "write", err)
	}
	if held, err := load(w.options.Path); err == nil && !w.doubt && bytes.Equal(held, data) {
		return nil
	}
	err = atomicfile.WritePath(w.options.Path, data)
	if w.doubt = err != nil; w.doubt {
		return fileError(w.options.Path, "write", err)
	}
	return nil
}

// Tee returns a function for podconfig.Run. The function passes an update to next and then notes
// that the Holder has changed.
func (w *Writer) Tee(next func(context.Context, podconfig.Update) error) func(context.Context, podconfig.Update) error {
	return func(ctx context.Context, u podconfig.Update) error {
		source, much := u.Source, urgencyOf(u) // next takes ownership of the update
		if err := next(ctx, u); err != nil {
			return err
		}
		w.note(source, much)
		return nil
	}
}

// note records that the Holder has changed by an update of the source. It never blocks.
func (w *Writer) note(source string, u urgency) {
	if len(w.options.Sources) > 0 && !slices.Contains(w.options.Sources, source) {
		return
	}
	wake := w.soon
	if u == canWait {
		wake = w.late
	}
	wake.Notify()
}
