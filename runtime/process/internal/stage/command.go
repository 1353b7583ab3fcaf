// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"os"
	"path"
	"strings"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Command is a process to start.
type Command struct {
	Programs  []string // paths; the first that exists is executed
	Args, Env []string
	Dir       string
	Files     [3]*os.File // nil: /dev/null
	Terminal  bool        // Files[0] becomes the controlling terminal
	Walls     record.Walls
	Beside    *os.File // a pidfd of a process whose namespaces the process joins; nil: namespaces of its own
	As        *os.File // a user namespace whose root the process becomes, without other namespaces; nil: none
}

// Candidates returns the paths at which a program may be, in the order of PATH, for a process whose
// files are not those of the caller.
func Candidates(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	list := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			list = v
		}
	}
	var out []string
	for _, dir := range strings.Split(list, ":") {
		out = append(out, path.Join("/", dir, name))
	}
	return out
}
