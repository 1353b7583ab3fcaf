// SPDX-License-Identifier: Apache-2.0

package process

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// search is the extent of the search for a container's shim.
type search uint8

const (
	// searchNowhere: no search, because the caller holds the container's lock and no shim runs.
	searchNowhere search = iota
	// searchHint: only the recorded PID.
	searchHint
	// searchAll: all processes.
	searchAll
)

// searchAfter is the length of a single wait after which the search for the shim covers all
// processes. A start is shorter.
const searchAfter = 16 * time.Millisecond

// isShim recognizes the container's shim by the arguments. The salts make the folder's name unique,
// so another process with a reused PID does not match.
func (in *instance) isShim(args []string) bool {
	return len(args) == 2 && args[0] == record.ShimName &&
		strings.HasSuffix(args[1], string(filepath.Separator)+in.key.dir())
}

// hold returns a handle of the container's shim. The error is os.ErrProcessDone if the shim has
// ended.
func (in *instance) hold(hint proc.Ref) (*proc.Handle, error) { return proc.Hold(hint, in.isShim) }

// ask reads the statement of the shim if records are missing, broken or contradictory, and restores
// the records from the statement. ask returns the presence of the spec after that.
func (r *Runtime) ask(in *instance, where search, o *observation, f *facts, spec presence) presence {
	find := proc.HoldAt
	if f.searched = where == searchAll; f.searched {
		find = proc.Hold
	}
	h, err := find(o.process.Shim, in.isShim)
	if err != nil {
		return spec
	}
	defer h.Close()
	f.shim = true
	raw, err := h.Memory(record.StatementName)
	var said record.Statement
	if err != nil || json.Unmarshal(raw, &said) != nil {
		return spec // the shim is starting or ending
	}
	if f.process != present || !f.started || o.process.Shim.PID != h.PID() {
		r.restored(in, record.ProcessFile, record.Restore(in.dir, record.ProcessFile, said.Process))
	}
	if spec != present {
		r.restored(in, record.SpecFile, record.Restore(in.dir, record.SpecFile, said.Spec))
	}
	o.spec, o.process, f.stated = said.Spec, said.Process, true
	return present
}

// restored logs the restoration of a damaged record. The error of a failed restoration is logged
// once for each file.
func (r *Runtime) restored(in *instance, name string, err error) {
	path := filepath.Join(in.path, name)
	if err != nil {
		r.report(path+" (restore)", err)
		return
	}
	r.log.Info("Restored a damaged record", zap.String("path", path))
}
