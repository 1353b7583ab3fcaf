// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// units returns the systemd units of this folder by file name.
func units(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("systemd/*.service")
	require.NoError(t, err)
	require.Len(t, files, 2)
	all := make(map[string]string)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		all[filepath.Base(f)] = string(text)
	}
	return all
}

// setting returns the value of a unit's setting, "" if it is not set.
func setting(unit, name string) string {
	for line := range strings.Lines(unit) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func TestTheCommandsOfUnitsAreUnderstood(t *testing.T) {
	for name, unit := range units(t) {
		args := strings.Fields(setting(unit, "ExecStart"))
		require.NotEmpty(t, args, name)
		for i, a := range args {
			switch a {
			case "%H":
				args[i] = "node"
			case "/etc/keelson/manifests":
				args[i] = t.TempDir()
			}
		}
		f, err := parseFlags(args[1:])
		require.NoError(t, err, name)
		require.True(t, f.keepPods, "%s: another version of the agent takes the pods over", name)
		require.True(t, f.shutdown.inOrder(), name)
	}
}

// Settings that would break mounts for containers, or the containers, are absent.
func TestUnitsLeaveTheMountsAlone(t *testing.T) {
	own := regexp.MustCompile(`(?m)^(ProtectSystem|ProtectHome|ProtectKernel\w+|ProtectControlGroups|ProtectProc|ProtectHostname|ProtectClock|Private\w+|ReadOnlyPaths|ReadWritePaths|InaccessiblePaths|BindPaths|BindReadOnlyPaths|TemporaryFileSystem|RootDirectory|MountFlags|DynamicUser|RestrictSUIDSGID|RestrictNamespaces)=`)
	for name, unit := range units(t) {
		require.Empty(t, own.FindAllString(unit, -1), name)
		require.Equal(t, "notify", setting(unit, "Type"), name)
		require.Equal(t, "main", setting(unit, "NotifyAccess"), name)
		require.NotEmpty(t, setting(unit, "WatchdogSec"), name)
	}
	require.Equal(t, "process", setting(units(t)["keelson-nodeagent-process.service"], "KillMode"), "its containers are the unit's processes")
}

func TestSystemdUnderstandsTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze")
	}
	self, err := os.Executable() // the program has to be there
	require.NoError(t, err)
	dir := t.TempDir()
	for name, unit := range units(t) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(unit, "ExecStart=keelson-nodeagent", "ExecStart="+self, 1)), 0o644))
		out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
		if err != nil && !strings.Contains(string(out), name) {
			t.Skipf("systemd-analyze does not work here: %s", out)
		}
		require.NoError(t, err, "%s: %s", name, out)
		require.NotContains(t, string(out), name, "no complaints")
	}
}
