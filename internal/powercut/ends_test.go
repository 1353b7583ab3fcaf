// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package powercut_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/powercut"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// enderEnv holds the folder of a traced test binary that runs containers.
const enderEnv = "KEELSON_POWERCUT_END"

// enders are the containers of runEnders, with their commands and exit codes.
var enders = []struct {
	name, script string
	code         int32
}{
	{"silent", "exit 7", 7},
	{"talks", "echo bye; exit 8", 8},
	{"killed", "kill -9 $$", 137},
	{"leaves", "sleep 1000 & exit 9", 9},
}

// runEnders runs containers to their ends. As soon as an exit code is known, a file told-NAME is there.
func runEnders(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rt, err := process.New(process.Options{Root: filepath.Join(dir, "state")})
	if err != nil {
		return err
	}
	ended := make(chan error)
	for _, e := range enders {
		sandbox, err := rt.RunSandbox(ctx, runtime.SandboxSpec{UID: types.UID(e.name), Name: e.name})
		if err != nil {
			return err
		}
		id, err := rt.CreateContainer(ctx, sandbox, runtime.ContainerSpec{
			Name: "c", Command: []string{"sh", "-c", "sleep 0.2; " + e.script}, LogPath: filepath.Join(dir, e.name+".log"),
		})
		if err == nil {
			err = rt.StartContainer(ctx, id)
		}
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := ender(ctx, rt, e.name)
				if err == nil && c.State == runtime.StateExited {
					err = os.WriteFile(filepath.Join(dir, "told-"+e.name), nil, 0o600)
				} else if err == nil {
					continue
				}
				ended <- err
				return
			}
		}()
	}
	for range enders {
		err = errors.Join(err, <-ended)
	}
	return err
}

// ender returns the status of a container of runEnders.
func ender(ctx context.Context, rt *process.Runtime, name string) (runtime.ContainerStatus, error) {
	st, err := rt.PodStatus(ctx, types.UID(name))
	if err != nil {
		return runtime.ContainerStatus{}, err
	}
	if c := st.Latest("c"); c != nil {
		return *c, nil
	}
	return runtime.ContainerStatus{}, fmt.Errorf("no container of %s", name)
}

// TestToldEndsAreKept: wherever the power is cut, an exit code that was known before is known after.
func TestToldEndsAreKept(t *testing.T) {
	root := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	ops := record(t, root, program, enderEnv+"="+root)
	random := rand.New(rand.NewPCG(1, 0))
	told, images := map[string]bool{}, 0
	for n, op := range ops {
		for _, e := range enders {
			told[e.name] = told[e.name] || op.Kind == powercut.Make && op.Name == "told-"+e.name
		}
		for loss := range powercut.Losses {
			dir := t.TempDir()
			require.NoError(t, powercut.Image(ops[:n+1], loss, random).Store(dir))
			images++
			rt, err := process.New(process.Options{Root: filepath.Join(dir, "state")})
			require.NoError(t, err)
			for _, e := range enders {
				if !told[e.name] {
					continue
				}
				c, err := ender(t.Context(), rt, e.name)
				if !assert.NoError(t, err) || !assert.Equal(t, runtime.StateExited, c.State) || !assert.Equal(t, e.code, c.ExitCode, c.Message) {
					t.Fatalf("%s, after %d of %d operations, loss %d; the last ones: %+v", e.name, n+1, len(ops), loss, ops[max(0, n-6):n+1])
				}
			}
		}
	}
	t.Logf("%d operations, %d images", len(ops), images)
	for _, e := range enders {
		assert.True(t, told[e.name], e.name)
	}
}
