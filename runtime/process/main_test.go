// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// TestMain makes the test binary its own shim and, for the crash tests, an agent
// to be killed. In the end nothing of any test may be left running.
func TestMain(m *testing.M) {
	if root := os.Getenv(forgetfulEnv); root != "" {
		forgetful(root)
		return
	}
	process.Main()
	attackFromInside()
	climb()
	miniAgent()
	reusePIDs()
	churn()
	useNetwork()
	// Built with -race every shim would sleep for a second at its end.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	// Threads of tests enter other namespaces. The main thread, whose namespaces /proc/self shows, is none of them.
	goruntime.LockOSThread()
	code := m.Run()
	if left := leftovers(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes left behind:\n%s\n", strings.Join(left, "\n"))
		code = 1
	}
	os.Exit(code)
}

// forgetfulEnv makes the test binary a program that does not call process.Main.
const forgetfulEnv = "PROCESS_TEST_FORGETFUL"

func forgetful(root string) {
	rt, err := process.New(process.Options{Root: root})
	if err == nil {
		err = rt.StartContainer(context.Background(), runtime.ContainerID{})
	}
	fmt.Println(err)
}

// leftovers describes every process with the mark of a container, and every shim, of this test run.
func leftovers() []string {
	all, err := proc.All()
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for _, p := range all {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		ours := strings.Contains(string(environ), record.IDEnv+"="+testUID) ||
			strings.HasPrefix(string(cmdline), record.ShimName+"\x00") && strings.Contains(string(cmdline), testUID)
		if ours && !p.Zombie {
			left = append(left, fmt.Sprintf("%d %q", p.PID, cmdline))
		}
	}
	return left
}
