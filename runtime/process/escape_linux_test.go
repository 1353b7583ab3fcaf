// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// TestNoAttackEscapes runs all attacks in a confined container, with namespaces and without, and
// expects each to fail. The same attacks run in a container without walls, and in confined
// containers without a filter of system calls: an attack that fails there as well proves nothing.
func TestNoAttackEscapes(t *testing.T) {
	if _, err := process.New(process.Options{Root: t.TempDir(), Confine: true}); err != nil {
		t.Skip(err)
	}
	open := results(t, process.Options{}, "", false)
	for _, spaces := range []bool{true, false} {
		t.Run(fmt.Sprintf("namespaces=%v", spaces), func(t *testing.T) {
			confined := results(t, process.Options{Confine: true}, "", spaces)
			unfiltered := results(t, process.Options{Confine: true}, v1.SeccompProfileTypeUnconfined, spaces)
			for _, a := range attacks {
				layer := a.layer
				if spaces {
					layer = a.layerInNamespaces()
				}
				judgeAttack(t, a, layer, open[a.name], confined[a.name], unfiltered[a.name])
			}
		})
	}
}

func judgeAttack(t *testing.T, a attack, layer, open, confined, unfiltered string) {
	t.Logf("%-32s %-17s without walls: %s; without filter: %s; confined: %s", a.name, layer, open, unfiltered, confined)
	assert.Contains(t, confined, "held by", "%s, confined", a.name)
	if layer == byShim || layer == byKernel {
		assert.Contains(t, open, "held by", "%s, without walls", a.name)
	}
	if a.works == everyUser || a.works == onlyRoot && os.Getuid() == 0 {
		assert.Equal(t, "ESCAPED", open, "%s, without walls", a.name)
	}
	if layer == byFilter && a.works == everyUser {
		assert.Equal(t, "ESCAPED", unfiltered, "%s, without the filter that holds it", a.name)
	} else if layer != byFilter {
		assert.Contains(t, unfiltered, "held by", "%s, without a filter", a.name)
	}
}

// TestEachAttackIsOnThePage: docs/process-backend.md has a row for each attack, with its layer.
func TestEachAttackIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/process-backend.md")
	require.NoError(t, err)
	var rows []string
	for _, a := range attacks {
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", a.name, a.layerInNamespaces(), a.layer))
	}
	assert.Contains(t, string(page), "|---|---|---|\n"+strings.Join(rows, "\n")+"\n\n")
}

// results runs the attacks in a container and returns their results by name.
func results(t *testing.T, opts process.Options, filter v1.SeccompProfileType, spaces bool) map[string]string {
	e := newEnv(t)
	e.rt = e.open(opts)
	if !spaces {
		process.WithoutNamespaces(e.rt)
	} else if !process.HasNamespaces(e.rt) {
		t.Skip("no namespaces here")
	}
	programs := t.TempDir()
	victim := prepareTarget(t, programs)
	self, err := os.Executable()
	require.NoError(t, err)
	copyFile(t, self, filepath.Join(programs, "attacker"), 0o700)

	pod := e.pod("")
	c := &pod.Spec.Containers[0]
	c.Command = []string{"/attack/attacker"}
	c.Env = []v1.EnvVar{{Name: attackEnv, Value: fmt.Sprintf("%s|%s|%s|%d|%s",
		victim.outside, victim.socket, victim.setuid, victim.stranger, filepath.Join(e.root, string(pod.UID)))}}
	if filter != "" {
		c.SecurityContext = &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: filter}}
	}
	spec := e.spec(pod, 0)
	spec.Mounts = []runtime.Mount{{Name: "attack", HostPath: programs, ContainerPath: "/attack", ReadOnly: true}}
	if opts.Images != nil {
		spec.Image, spec.Mounts = "app", append(spec.Mounts, systemMounts()...)
	}
	id, err := e.rt.CreateContainer(t.Context(), e.sandbox(pod), spec)
	require.NoError(t, err)
	require.NoError(t, e.rt.StartContainer(t.Context(), id))
	require.Zero(t, e.exited(pod).ExitCode, "%s", e.log(pod, 0))

	out := map[string]string{}
	for line := range strings.Lines(e.log(pod, 0)) {
		name, result, _ := strings.Cut(strings.TrimSpace(line), ": ")
		out[name] = result
	}
	require.Contains(t, out, "done")
	return out
}

// prepareTarget makes files, a process and a socket outside of any container, and as root a
// set-user-ID program in a folder of the container.
func prepareTarget(t *testing.T, programs string) target {
	v := target{outside: t.TempDir(), socket: fmt.Sprintf("keelson-test-%d-%s", os.Getpid(), filepath.Base(t.TempDir()))}
	for _, name := range []string{"secret", "empty", "moved"} {
		require.NoError(t, os.WriteFile(filepath.Join(v.outside, name), []byte(name), 0o600))
	}
	copyFile(t, "/bin/true", filepath.Join(v.outside, "program"), 0o700)
	victim := exec.Command("sleep", "1000")
	require.NoError(t, victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	v.stranger = victim.Process.Pid
	listener, err := net.Listen("unix", "@"+v.socket)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	if os.Getuid() != 0 {
		if info, err := os.Stat("/usr/bin/su"); err == nil && info.Mode()&os.ModeSetuid != 0 {
			v.setuid = "/usr/bin/su"
		}
		return v
	}
	v.setuid = filepath.Join(programs, "setuid")
	copyFile(t, "/bin/cat", v.setuid, 0o755)
	require.NoError(t, os.Chown(v.setuid, 12345, 12345))
	require.NoError(t, os.Chmod(v.setuid, 0o755|os.ModeSetuid))
	return v
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}
