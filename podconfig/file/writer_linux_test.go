// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Kubernetes users see half-written manifests if the writer is slow (bottlerocket 1396, 1409). Half
// a manifest is often valid.
func TestUpstreamBottlerocket1396SlowWriterIsSeenHalfWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("a.yaml", pod("a", "i")+"  - name: second\n    image: j\n")
		r := run(f)
		r.take()
		w, err := os.Create(f.path("a.yaml"))
		require.NoError(t, err)
		needLeases(t, w)
		for _, part := range []string{pod("a", "x"), "  - name: second\n", "    image: z\n"} {
			_, err = w.WriteString(part)
			require.NoError(t, err)
			r.hint()
			r.wait(4 * time.Second)
			assert.Empty(t, r.take())
			assert.Empty(t, r.told())
		}
		require.NoError(t, w.Close())
		r.wait(time.Second)
		got := r.take()
		require.Len(t, got, 1)
		assert.Equal(t, []string{"a=x"}, got[0].pods)
		require.NoError(t, r.stop())
	})
}

func TestNewFileIsNotTakenWhileItIsWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(newFixture(t))
		r.take()
		w, err := os.Create(r.path("a.yaml"))
		require.NoError(t, err)
		needLeases(t, w)
		_, err = w.WriteString(pod("a", "i"))
		require.NoError(t, err)
		r.hint()
		r.wait(3 * time.Second)
		assert.Empty(t, r.take())
		require.NoError(t, w.Close())
		r.wait(time.Second)
		assert.Len(t, r.take(), 1)
		require.NoError(t, r.stop())
	})
}

// A process that never closes the file does not prevent the read forever.
func TestFileThatStaysOpenIsReadOnceItRests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(newFixture(t))
		r.take()
		w, err := os.Create(r.path("a.yaml"))
		require.NoError(t, err)
		defer w.Close()
		needLeases(t, w)
		_, err = w.WriteString(pod("a", "i"))
		require.NoError(t, err)
		r.hint()
		r.wait(10 * time.Second)
		got := r.take()
		require.Len(t, got, 1)
		assert.InDelta(t, 5, got[0].at.Seconds(), 0.2)
		require.NoError(t, r.stop())
	})
}

// At the start, a file open for writing keeps the source from being ready for a second. Otherwise a
// pod running since before the restart would be killed.
func TestFirstSnapshotWaitsForAWriterButNotForEver(t *testing.T) {
	for _, closeAfter := range []time.Duration{300 * ms, time.Hour} {
		bubble(t, func(t *testing.T) {
			f := newFixture(t)
			f.write("b.yaml", pod("b", "i"))
			w, err := os.Create(f.path("a.yaml"))
			require.NoError(t, err)
			needLeases(t, w)
			_, err = w.WriteString(pod("a", "i"))
			require.NoError(t, err)
			r := run(f)
			r.wait(closeAfter)
			require.NoError(t, w.Close())
			r.wait(2 * time.Second)
			got := r.take()
			if closeAfter < time.Second {
				require.Len(t, got, 1)
				assert.Equal(t, []string{"a=i", "b=i"}, got[0].pods)
			} else {
				assert.Equal(t, snapshot{time.Second, []string{"b=i"}}, got[0])
			}
			require.NoError(t, r.stop())
		})
	}
}

// needLeases skips the test if the file system does not report writers.
func needLeases(t *testing.T, f *os.File) {
	r, err := os.Open(f.Name())
	require.NoError(t, err)
	defer r.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, r.Fd(), syscall.F_SETLEASE, syscall.F_RDLCK); errno != syscall.EAGAIN {
		t.Skip("no leases here:", errno)
	}
}
