// SPDX-License-Identifier: Apache-2.0

package diskuse

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/internal/recent"
)

// Meter measures folders and keeps the results. A folder is measured again after maxAge, and after
// 20 times the duration of its last measurement: a large folder costs at most 5 % of a core. The
// zero value is ready. A Meter may be used by many goroutines.
type Meter struct {
	// Blocked measures a folder with content that this process may not read. nil: such a folder is not known.
	Blocked func(ctx context.Context, folder string) (Usage, error)

	mu struct {
		sync.Mutex
		folders recent.Map[string, folder]
	}
}

// folder is the state of one folder.
type folder struct {
	last  Usage
	known bool      // last is a result
	due   time.Time // of the next measurement
}

const (
	// maxAge is the age at which a result is replaced. It is the kubelet's volumeStatsAggPeriod.
	maxAge = time.Minute
	// rest is the pause after a measurement, as a multiple of the measurement's duration.
	rest = 20
)

// Usage returns the disk usage of a folder, and false if it is not known: the folder is missing or
// unreadable, or ctx ended during the first measurement. After a failure the last result is
// returned. Compare Usage.At for its age.
func (m *Meter) Usage(ctx context.Context, path string) (Usage, bool) {
	f, due := m.ask(path, time.Now())
	if !due {
		return f.last, f.known
	}
	began := time.Now()
	u, err := Of(ctx, path)
	if errors.Is(err, fs.ErrPermission) && m.Blocked != nil {
		u, err = m.Blocked(ctx, path)
	}
	ended := time.Now()
	f.due = ended.Add(rest * ended.Sub(began))
	if err == nil {
		f.last, f.known = u, true
	}
	if ctx.Err() == nil && f.due.Before(ended.Add(maxAge)) {
		f.due = ended.Add(maxAge)
	}
	m.store(path, f)
	return f.last, f.known
}

// ask returns a copy of a folder's state, and whether a measurement is due.
func (m *Meter) ask(path string, now time.Time) (folder, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.mu.folders.Get(path)
	return *f, !now.Before(f.due)
}

func (m *Meter) store(path string, f folder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*m.mu.folders.Get(path) = f
}

// Forget drops the results of folders that Usage was not called for since the last call of Forget.
func (m *Meter) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.folders.Forget()
}
