// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/runtimetest"
)

func TestConformance(t *testing.T) { conformance(t, process.Options{}) }

// TestConformanceConfined runs the suite behind Landlock, seccomp and namespaces, and without the namespaces,
// as on a kernel that has none for users. It needs Landlock ABI 6. TestConformanceLimited has the cgroups.
func TestConformanceConfined(t *testing.T) {
	confined := process.Options{Root: t.TempDir(), Confine: true}
	if _, err := process.New(confined); err != nil {
		t.Skip(err)
	}
	t.Run("with namespaces", func(t *testing.T) { conformance(t, confined) })
	t.Run("without namespaces", func(t *testing.T) { conformance(t, confined, process.WithoutNamespaces) })
}

// conformance runs the suite of backends with opts, and with changes to each backend.
func conformance(t *testing.T, opts process.Options, changes ...func(*process.Runtime)) {
	privileged := true
	runtimetest.Run(t, runtimetest.Harness{
		Open: func(tb testing.TB) *runtimetest.Subject {
			if t.Name() != "TestConformance" {
				casetest.SkipUnlessChosen(tb)
			}
			dir := tb.TempDir()
			root := filepath.Join(dir, "state")
			open := func(tb testing.TB) runtime.Runtime {
				own := opts // tests run side by side
				own.Root = root
				rt, err := process.New(own)
				require.NoError(tb, err)
				for _, change := range changes {
					change(rt)
				}
				return rt
			}
			return &runtimetest.Subject{
				Runtime: open(tb),
				Reopen:  func(tb testing.TB, meanwhile func()) runtime.Runtime { meanwhile(); return open(tb) },
				Reboot:  func(tb testing.TB) runtime.Runtime { powerCut(tb, root); return open(tb) },
				Logs:    filepath.Join(dir, "logs"),
			}
		},
		Unit: 50 * time.Millisecond,
		// The backend requires a command in the pod. The command of the spec runs.
		Pod: func(pod *v1.Pod) {
			for i := range pod.Spec.Containers {
				pod.Spec.Containers[i].Command = []string{"as the spec says"}
			}
		},
		Refused: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "runtimetest", Name: "refused", UID: "refused"},
			Spec: v1.PodSpec{Containers: []v1.Container{{
				Name: "main", Command: []string{"true"}, SecurityContext: &v1.SecurityContext{Privileged: &privileged},
			}}},
		},
	})
}

// powerCut changes a state folder like a restart of the machine: no process is left, none has
// written anything, and the boot has another ID.
func powerCut(tb testing.TB, root string) {
	tb.Helper()
	require.NoError(tb, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != record.SandboxFile && d.Name() != record.ProcessFile {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if d.Name() == record.ProcessFile {
			killWithoutAWord(tb, filepath.Dir(path), raw)
		}
		boot, err := proc.BootID()
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), boot, "an-earlier-boot")), 0o600)
	}))
}

func killWithoutAWord(tb testing.TB, dir string, raw []byte) {
	tb.Helper()
	if _, err := os.Stat(filepath.Join(dir, record.ExitFile)); err == nil {
		return
	}
	var p record.Process
	require.NoError(tb, json.Unmarshal(raw, &p))
	_ = p.Shim.Signal(9)
	all, err := proc.All()
	require.NoError(tb, err)
	for _, q := range all {
		if q.SID == p.Main.PID {
			_ = q.Signal(9)
		}
	}
}
