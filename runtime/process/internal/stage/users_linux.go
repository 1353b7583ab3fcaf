// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// OpenUsers returns a new user namespace that maps IDs. The programs newuidmap and newgidmap do so if /etc/subuid and
// /etc/subgid permit the IDs to the caller's user. The caller closes the file.
func OpenUsers(ids record.IDs) (users *os.File, err error) {
	if !Built {
		return nil, errNoNamespaces
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("user namespace: %w", err)
		}
	}()
	goruntime.LockOSThread() // the process ends with the thread
	defer goruntime.UnlockOSThread()
	c, err := newChild()
	if err != nil {
		return nil, err
	}
	defer c.close()
	c.flags |= unix.CLONE_NEWUSER
	pid, err := c.wait()
	if err != nil {
		return nil, err
	}
	defer await(pid)
	defer unix.Kill(pid, unix.SIGKILL)
	if err := mapIDs(pid, os.Getegid(), ids.Groups); err != nil {
		return nil, err
	}
	if err := mapIDs(pid, os.Geteuid(), ids.Users); err != nil {
		return nil, err
	}
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
}

// mapIDs maps the caller's ID to 0 in the user namespace of a process, and a range to the IDs from 1 on.
func mapIDs(pid, own int, ids record.Range) error {
	out, err := exec.Command(ids.Program, fmt.Sprint(pid), "0", fmt.Sprint(own), "1", "1", fmt.Sprint(ids.First), fmt.Sprint(ids.Count)).CombinedOutput()
	if err == nil {
		return nil
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n"); line != "" {
		err = errors.New(record.Clip(line, 200))
	}
	return fmt.Errorf("%s: %w", ids.Program, err)
}

// enterNewUsers makes the process root of a new user namespace that maps IDs.
func (s *stage) enterNewUsers(ids record.IDs, pass func(*os.File) (int, error)) error {
	users, err := OpenUsers(ids)
	if err != nil {
		return err
	}
	defer users.Close()
	return s.enterUsers(users, pass)
}

// enterUsers makes the process root of a user namespace.
func (s *stage) enterUsers(users *os.File, pass func(*os.File) (int, error)) error {
	fd, err := pass(users)
	if err != nil {
		return err
	}
	s.add(must, "enter the user namespace", unix.SYS_SETNS, fd, unix.CLONE_NEWUSER)
	return nil
}
