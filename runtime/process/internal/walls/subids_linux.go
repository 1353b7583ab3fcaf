// SPDX-License-Identifier: Apache-2.0

package walls

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	osuser "os/user"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// SubordinateIDs returns the subordinate IDs of this process's user, of /etc/subuid and /etc/subgid.
func SubordinateIDs() (ids record.IDs, err error) {
	own := strconv.Itoa(os.Geteuid())
	name := own
	if u, err := osuser.LookupId(own); err == nil {
		name = u.Username
	}
	if ids.Users, err = subordinate("/etc/subuid", "newuidmap", name, own); err == nil {
		ids.Groups, err = subordinate("/etc/subgid", "newgidmap", name, own)
	}
	return ids, err
}

// subordinate returns the widest range that a file gives to a user, by name or number, with the program that maps it.
func subordinate(file, program, name, number string) (r record.Range, err error) {
	f, err := os.Open(file)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if r = widest(f, name, number); r.Count == 0 {
		return r, fmt.Errorf("%s has no range of user %s", file, name)
	}
	r.Program, err = exec.LookPath(program)
	return r, err
}

// widest returns the widest range of a user in a file whose lines have a user, the first ID, and the number of IDs.
func widest(file io.Reader, names ...string) (r record.Range) {
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(fields) != 3 {
			continue
		}
		for _, name := range names {
			first, wrongFirst := strconv.ParseUint(fields[1], 10, 32)
			count, wrongCount := strconv.ParseUint(fields[2], 10, 32)
			if fields[0] == name && wrongFirst == nil && wrongCount == nil && first+count < 1<<32 && uint32(count) > r.Count {
				r = record.Range{First: uint32(first), Count: uint32(count)}
			}
		}
	}
	return r
}
