// SPDX-License-Identifier: Apache-2.0

package hotplug

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/failurelog"
)

// grant is the devices that the containers of a sandbox were started with. It cannot become wrong
// later, because a sandbox is never started a second time.
type grant struct {
	Sandbox        string
	Nodes, Numbers string
}

// facts returns the devices of the containers, if they run in the sandbox.
func (g grant) facts(sandbox string) (f Facts, ok bool) {
	return Facts{Nodes: g.Nodes, Numbers: g.Numbers}, sandbox != "" && g.Sandbox == sandbox
}

// maxMemory is the largest accepted size of the file in bytes. A pod takes about 200 bytes.
const maxMemory = 16 << 20

// memory is the file with the grants, for the next agent.
type memory struct {
	path    string
	log     *zap.Logger
	failed  failurelog.Log
	written []byte // content of the file
}

// load returns the grants of the earlier agent. An unusable file is logged and ignored.
func (m *memory) load() map[types.UID]grant {
	grants := map[types.UID]grant{}
	data, err := atomicfile.ReadPath(m.path, maxMemory)
	if err == nil {
		if err = json.Unmarshal(data, &grants); err != nil {
			err = fmt.Errorf("%s: %w", m.path, err)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Warn("devices that were replugged while no agent ran are not noticed", zap.Error(err))
		return nil
	}
	m.written = data
	return grants
}

// save writes the grants if they have changed. A node without grants needs no file.
func (m *memory) save(grants map[types.UID]grant) {
	data, err := json.Marshal(grants)
	if err != nil || bytes.Equal(data, m.written) || len(grants) == 0 && m.written == nil {
		return
	}
	if err = os.MkdirAll(filepath.Dir(m.path), 0o700); err == nil {
		err = atomicfile.WritePath(m.path, data)
	}
	m.failed.Report(err)
	if err == nil {
		m.written = data
	}
}
