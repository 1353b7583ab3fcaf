// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// A container is run and waited for. In a program, main begins with
// process.Main(); here TestMain does.
func Example() {
	dir, err := os.MkdirTemp("", "process")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := hello(context.Background(), dir); err != nil {
		fmt.Println(err)
	}
	// Output:
	// hello, world
	// exited with code 3
}

func hello(ctx context.Context, dir string) error {
	rt, err := process.New(process.Options{Root: filepath.Join(dir, "state")})
	if err != nil {
		return err
	}
	sandbox, err := rt.RunSandbox(ctx, runtime.SandboxSpec{UID: "example", Name: "example"})
	if err != nil {
		return err
	}
	defer func() { _ = rt.RemoveSandbox(ctx, sandbox) }()
	log := filepath.Join(dir, "hello.log")
	id, err := rt.CreateContainer(ctx, sandbox, runtime.ContainerSpec{
		Name:    "hello",
		Command: []string{"sh", "-c", `echo "hello, $WHOM"; exit 3`},
		Env:     []runtime.EnvVar{{Name: "WHOM", Value: "world"}},
		LogPath: log,
	})
	if err != nil {
		return err
	}
	if err := rt.StartContainer(ctx, id); err != nil {
		return err
	}
	for uid, err := range rt.Watch(ctx) {
		if err != nil {
			return err
		}
		st, err := rt.PodStatus(ctx, uid)
		if err != nil {
			return err
		}
		if c := st.Latest("hello"); c.State == runtime.StateExited {
			line, err := os.ReadFile(log)
			_, text, _ := strings.Cut(string(line), " F ")
			fmt.Printf("%sexited with code %d\n", text, c.ExitCode)
			return err
		}
	}
	return ctx.Err()
}
