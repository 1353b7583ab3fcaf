// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// recordsOf has the records of the Jobs and CronJobs of a source, by namespace/name.
type recordsOf struct {
	Jobs  map[string]savedJob   `json:"jobs"`
	Crons map[string]CronRecord `json:"crons"`
}

// savedJob is the record of a Job. Template is the UID of the Job's template.
type savedJob struct {
	Template types.UID `json:"template"`
	Record   JobRecord `json:"record"`
}

// records are the records of a source, on the disk.
type records struct {
	path  string
	last  []byte
	state recordsOf
}

// maxRecords is the largest file of records in bytes.
const maxRecords = 64 << 20

// openRecords reads the records of a source. A file that cannot be understood is kept under another
// name, and its Jobs run again.
func openRecords(dir, source string) (*records, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("records of Jobs: %w", err)
	}
	r := &records{path: filepath.Join(dir, source+".json")}
	data, err := atomicfile.ReadPath(r.path, maxRecords)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("records of Jobs: %w", err)
	}
	if err := json.Unmarshal(data, &r.state); err != nil {
		r.state = recordsOf{}
		return r, os.Rename(r.path, r.path+".unreadable")
	}
	r.last = data
	return r, nil
}

// save stores the records if they have changed. After an error the earlier records stay.
func (r *records) save(state recordsOf) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if !bytes.Equal(data, r.last) {
		if len(state.Jobs)+len(state.Crons) == 0 && r.last == nil {
			return nil
		}
		if err := atomicfile.WritePath(r.path, data); err != nil {
			return err
		}
	}
	r.last, r.state = data, state
	return nil
}
