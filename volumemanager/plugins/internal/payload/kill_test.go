// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writerEnv makes this test binary a process that writes versions until it is killed.
const writerEnv = "KEELSON_PAYLOAD_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		writeForEver(dir)
	}
	os.Exit(m.Run())
}

// numbered returns a version with its number in all files, so that a mixture is visible.
func numbered(n int) Payload {
	text := fmt.Sprintf("%06d ", n)
	p := Payload{}
	for i := range 2 + n%5 {
		p[fmt.Sprintf("key-%d", i)] = File{Data: []byte(strings.Repeat(text, 300)), Mode: 0o644}
	}
	p["d/deep"] = File{Data: []byte(text), Mode: 0o600}
	return p
}

func writeForEver(dir string) {
	root, err := os.OpenRoot(dir)
	for n := rand.IntN(100_000); err == nil; n++ {
		_, err = Write(context.Background(), root, numbered(n), Options{})
		if err == nil {
			fmt.Println("written") // the first line tells the parent that a version exists
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestKilledWriters kills writing processes at random moments. Each leaves a complete version, from
// which the next process continues.
func TestKilledWriters(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir := fastDir(t)
	for range 40 {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		if _, err = out.Read(make([]byte, 1)); err != nil {
			_ = cmd.Wait()
			require.NoError(t, err, "the writer failed: %s", stderr.String())
		}
		<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		require.Empty(t, stderr.String())
		checkNumbered(t, dir)
	}
	v := volumeAt(t, dir)
	v.write(numbered(3), Options{})
	require.Equal(t, texts(numbered(3)), v.seen())
	require.Len(t, v.names(), len(numbered(3).tops())+2, "nothing is left behind: %v", v.names())
}

// checkNumbered requires that the current version is a complete written version.
func checkNumbered(t *testing.T, dir string) {
	t.Helper()
	got := texts(currentFiles(t, &volume{t: t, dir: dir}))
	var n int
	_, err := fmt.Sscanf(got["d/deep"], "%d ", &n)
	require.NoError(t, err, "%v", got)
	require.Equal(t, texts(numbered(n)), got)
}
