// SPDX-License-Identifier: Apache-2.0

package recordfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// ErrCorrupt means that the content of the file was not written by Save.
var ErrCorrupt = errors.New("recordfile: corrupt")

const (
	version = 1
	// maxBytes is enough for more than a hundred thousand images.
	maxBytes = 64 << 20
)

// File is an imagegc.Store for a single collector.
type File struct {
	path string
}

// New returns the store in the file at path. The file need not exist, but its folder must. New does
// not access the disk.
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

// Load returns the saved records, or none if the file does not exist. Invalid content is an
// ErrCorrupt.
func (f *File) Load(ctx context.Context) ([]imagegc.Record, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	data, err := atomicfile.ReadPath(f.path, maxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, atomicfile.ErrTooLarge), errors.Is(err, atomicfile.ErrNotRegular):
		return nil, fmt.Errorf("%s: %w: %w", f.path, ErrCorrupt, err)
	case err != nil:
		return nil, err
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

// Save replaces the file. After an error the old file remains, unless only the sync of the folder
// failed.
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
	return atomicfile.WritePath(f.path, data.Bytes())
}
