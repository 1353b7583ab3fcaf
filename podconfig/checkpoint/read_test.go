// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/checkpoint"
)

// saved returns the bytes of a checkpoint of two pods.
func saved(t *testing.T) (*fixture, []byte) {
	f := newFixture(t, t.TempDir())
	f.say("api", podconfig.Snapshot(pod("a", "a:1"), pod("b", "b:1")))
	require.NoError(t, f.writer.Save())
	data, err := os.ReadFile(f.path)
	require.NoError(t, err)
	return f, data
}

func (f *fixture) refused(data []byte) error {
	f.Helper()
	require.NoError(f, os.WriteFile(f.path, data, 0o600))
	seed, err := checkpoint.Read(f.path)
	require.Error(f, err)
	require.Nil(f, seed)
	fileErr, ok := err.(*checkpoint.FileError)
	require.True(f, ok)
	require.Equal(f, f.path, fileErr.Path)
	require.NotContains(f, err.Error(), secret)
	require.NotContains(f, err.Error(), "\n")
	return err
}

// A file cut off at any byte is torn, and is never read in part.
func TestReadOfATornFile(t *testing.T) {
	f, data := saved(t)
	for n := range len(data) {
		require.ErrorIs(t, f.refused(data[:n]), checkpoint.ErrTorn, "%d of %d bytes", n, len(data))
	}
	require.ErrorIs(t, f.refused(make([]byte, len(data))), checkpoint.ErrTorn, "zeros, as after a power cut")
}

// A single changed byte is detected at any position.
func TestReadOfACorruptFile(t *testing.T) {
	f, data := saved(t)
	for n := range len(data) {
		bad := bytes.Clone(data)
		bad[n] ^= 1
		err := f.refused(bad)
		if n < len("keelson-checkpoint ") {
			require.ErrorIs(t, err, checkpoint.ErrForeign)
		}
	}
	require.ErrorIs(t, f.refused(append(bytes.Clone(data), '\n')), checkpoint.ErrCorrupt)
	require.ErrorIs(t, f.refused(append(bytes.Clone(data), data...)), checkpoint.ErrCorrupt)
	require.ErrorIs(t, f.refused(append([]byte("keelson-checkpoint 1 "), bytes.Repeat([]byte("1"), 1_000)...)), checkpoint.ErrCorrupt)
	require.ErrorIs(t, f.refused(bytes.Replace(data, []byte("checkpoint 1 "), []byte("checkpoint 2 "), 1)), checkpoint.ErrVersion)
}

func TestReadOfForeignFiles(t *testing.T) {
	f, data := saved(t)
	for _, text := range []string{"\n", "PASSWORD=" + secret, "apiVersion: v1\nkind: Pod\n", strings.ToUpper(string(data)), "keelson-checkpoints"} {
		require.ErrorIs(t, f.refused([]byte(text)), checkpoint.ErrForeign)
	}
}

func TestReadBlocksOnNothingAndReadsNoMoreThanItMay(t *testing.T) {
	f, _ := saved(t)
	for _, size := range []int64{checkpoint.MaxBytes + 1, 1 << 40} {
		require.NoError(t, os.Truncate(f.path, size))
		_, err := checkpoint.Read(f.path)
		require.ErrorIs(t, err, checkpoint.ErrTooLarge)
	}
	require.NoError(t, os.Truncate(f.path, checkpoint.MaxBytes))
	_, err := checkpoint.Read(f.path)
	require.ErrorIs(t, err, checkpoint.ErrCorrupt, "it is read")

	require.NoError(t, os.Remove(f.path))
	require.NoError(t, syscall.Mkfifo(f.path, 0o600))
	_, err = checkpoint.Read(f.path)
	require.ErrorIs(t, err, checkpoint.ErrForeign)
	_, err = checkpoint.Read(t.TempDir())
	require.ErrorIs(t, err, checkpoint.ErrForeign)
	_, err = checkpoint.Read("/dev/zero")
	require.ErrorIs(t, err, checkpoint.ErrForeign)
}

// A user with write access to the file could run pods on the node.
func TestReadRefusesAFileOthersMayWrite(t *testing.T) {
	f, _ := saved(t)
	for _, mode := range []os.FileMode{0o620, 0o602, 0o666} {
		require.NoError(t, os.Chmod(f.path, mode))
		_, err := checkpoint.Read(f.path)
		require.ErrorIs(t, err, checkpoint.ErrExposed)
	}
	require.NoError(t, os.Chmod(f.path, 0o644))
	require.Len(t, f.read(), 2)
}
