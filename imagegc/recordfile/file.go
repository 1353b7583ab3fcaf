// SPDX-License-Identifier: Apache-2.0

package recordfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/imagegc"
)

// ErrCorrupt says that the file is not one that Save wrote.
var ErrCorrupt = errors.New("recordfile: corrupt")

const (
	version = 1
	// maxBytes is more than a hundred thousand images need.
	maxBytes = 64 << 20
)

// File is an imagegc.Store. It is for one collector at a time.
type File struct {
	path string
}

// New returns the store in the file at path, which need not exist; its folder must. It touches nothing.
func New(path string) *File { return &File{path} }

type content struct {
	Version int      `json:"version"`
	Images  []record `json:"images"`
}

type record struct {
	ID            string    `json:"id"`
	Handler       string    `json:"handler,omitempty"`
	FirstDetected time.Time `json:"firstDetected"`
	LastUsed      time.Time `json:"lastUsed,omitzero"`
}

// Load returns what was saved, nothing if there is no file. What it cannot make sense of is an ErrCorrupt.
func (f *File) Load(ctx context.Context) ([]imagegc.Record, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", f.path, ErrCorrupt, maxBytes)
	}
	records, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return records, nil
}

func decode(data []byte) ([]imagegc.Record, error) {
	var c content
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if c.Version != version {
		return nil, fmt.Errorf("%w: version %d, want %d", ErrCorrupt, c.Version, version)
	}
	records := make([]imagegc.Record, 0, len(c.Images))
	for i, r := range c.Images {
		if r.ID == "" || r.FirstDetected.IsZero() {
			return nil, fmt.Errorf("%w: image %d has no ID or time", ErrCorrupt, i)
		}
		records = append(records, imagegc.Record(r))
	}
	return records, nil
}

// Save replaces the file. After an error the old one is there, unless only the folder could not be synced.
func (f *File) Save(ctx context.Context, records []imagegc.Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c := content{Version: version, Images: make([]record, 0, len(records))}
	for _, r := range records {
		c.Images = append(c.Images, record(r))
	}
	var data bytes.Buffer
	if err := json.NewEncoder(&data).Encode(c); err != nil {
		return err
	}
	temporary := f.path + ".tmp" // one name: who was killed leaves one file at most
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := write(temporary, data.Bytes())
	if err == nil {
		err = os.Rename(temporary, f.path)
	}
	if err != nil {
		_ = os.Remove(temporary) // on a full disk, every byte counts
		return err
	}
	return syncFolder(filepath.Dir(f.path))
}

// write makes a file whose content is on the disk. O_EXCL follows no link that somebody may have put there.
func write(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder puts a folder's names on the disk. Not every file system can, and those that cannot say so.
func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}
