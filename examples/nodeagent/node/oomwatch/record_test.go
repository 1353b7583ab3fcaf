// SPDX-License-Identifier: Apache-2.0

package oomwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const tail = " total-vm:1024kB, anon-rss:512kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:40kB oom_score_adj:0"

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, record string
		want         Victim
	}{
		{"a process", "3,1200,93847265,-;Out of memory: Killed process 17 (stress)" + tail + "\n", Victim{"stress", 17}},
		{"the process that needed the memory", "3,1,2,-;Out of memory (oom_kill_allocating_task): Killed process 17 (stress)" + tail, Victim{"stress", 17}},
		{"a name with parentheses", "3,1,2,-;Out of memory: Killed process 17 (a) total-vm: (b))" + tail, Victim{"a) total-vm: (b)", 17}},
		{"further fields", "3,1,2,c;Out of memory: Killed process 17 (x)" + tail + "\n SUBSYSTEM=memory\n", Victim{"x", 17}},
		{name: "at the limit of a cgroup", record: "3,1,2,-;Memory cgroup out of memory: Killed process 17 (x)" + tail},
		{name: "of a program, which cannot use the kernel's facility", record: "11,1,2,-;Out of memory: Killed process 1 (init)" + tail},
		{name: "another record", record: "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task_memcg=/,task=x,pid=17,uid=0\n"},
		{name: "no number", record: "3,1,2,-;Out of memory: Killed process x (y)" + tail},
		{name: "no end", record: "3,1,2,-;Out of memory: Killed process 17 (y)"},
		{name: "nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := Parse(c.record)
			require.Equal(t, c.want.PID != 0, ok)
			if ok {
				require.Equal(t, c.want, got)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("3,1,2,-;Out of memory: Killed process 17 (x) total-vm:")
	f.Fuzz(func(t *testing.T, record string) {
		if v, ok := Parse(record); ok && !strings.Contains(record, fmt.Sprintf("(%s) total-vm:", v.Process)) {
			t.Fatalf("%q: %v", record, v)
		}
	})
}

// records is a log: each Read returns a record or an error.
type records []any

func (r *records) Read(p []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	first := (*r)[0]
	*r = (*r)[1:]
	if err, isError := first.(error); isError {
		return 0, err
	}
	return copy(p, first.(string)), nil
}

// Records that the kernel has overwritten do not end the watch.
func TestReadGoesOnAfterLostRecords(t *testing.T) {
	kill := func(pid int) string {
		return fmt.Sprintf("3,1,2,-;Out of memory: Killed process %d (x)%s\n", pid, tail)
	}
	var got []int
	log := &records{kill(1), &os.PathError{Op: "read", Path: "/dev/kmsg", Err: syscall.EPIPE}, "6,1,2,-;hello\n", kill(2)}
	err := read(log, func(v Victim) { got = append(got, v.PID) })
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, []int{1, 2}, got)
}

func TestFollowEndsWithItsContext(t *testing.T) {
	require.ErrorIs(t, follow(t.Context(), filepath.Join(t.TempDir(), "none"), nil), os.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- follow(ctx, "/dev/kmsg", func(Victim) {}) }()
	cancel()
	err := <-ended
	if !errors.Is(err, os.ErrPermission) && !errors.Is(err, os.ErrNotExist) {
		require.ErrorIs(t, err, os.ErrClosed)
	}
}
