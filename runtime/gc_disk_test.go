// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestPodOfLogFolder(t *testing.T) {
	for name, want := range map[string]types.UID{
		"default_web_1234":                     "1234",
		"default_web_u_1":                      "u_1",
		"0f5c1c1e-9c1b-4d39-8d53-2f2e6f1f3a10": "0f5c1c1e-9c1b-4d39-8d53-2f2e6f1f3a10",
		"0f5c1c1e9c1b4d398d532f2e6f1f3a10":     "0f5c1c1e9c1b4d398d532f2e6f1f3a10",
		"lost+found":                           "",
		"default_web":                          "",
		"default_web_":                         "",
		"_web_1":                               "",
		"__1":                                  "",
		"0F5C1C1E9C1B4D398D532F2E6F1F3A10":     "",
		"":                                     "",
		goneLogs + "0123456789abcdef":          "",
	} {
		uid, ok := podOfLogFolder(name)
		require.Equal(t, want, uid, name)
		require.Equal(t, want != "", ok, name)
	}
}

func FuzzPodOfLogFolder(f *testing.F) {
	f.Add("default", "web", "u_1")
	f.Fuzz(func(t *testing.T, namespace, name, uid string) {
		dir, err := podLogDir("/", podNamed(namespace, name, uid))
		if err != nil {
			return
		}
		got, ok := podOfLogFolder(filepath.Base(dir))
		require.True(t, ok)
		require.EqualValues(t, uid, got)
	})
}

func TestUnrecorded(t *testing.T) {
	set := func(counts ...int32) map[int32]int {
		m := map[int32]int{}
		for _, n := range counts {
			m[n]++
		}
		return m
	}
	for _, tc := range []struct {
		name     string
		counts   []int32
		recorded map[int32]int
		want     []int32
	}{
		{"no logs", nil, set(3), nil},
		{"no records: all but the highest", []int32{1, 2, 5}, nil, []int32{1, 2}},
		{"records and their logs", []int32{4, 5}, set(4, 5), nil},
		{"logs of pruned records", []int32{0, 1, 4, 5}, set(4, 5), []int32{0, 1}},
		{"a hole in the records", []int32{1, 3, 5}, set(1, 5), []int32{3}},
		{"above all records", []int32{4, 5, 6}, set(5), []int32{4}},
		{"only older logs: the highest stays", []int32{1, 2}, set(7), []int32{1}},
		{"a listing without restart counts", []int32{0, 1, 2}, set(0, 0), nil},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, unrecorded(tc.counts, tc.recorded)) })
	}
}

func TestContainerOfLink(t *testing.T) {
	for name, want := range map[string]string{
		"web_default_main-0123abcd.log":      "0123abcd",
		"web-1_kube-system_main-x-0123.log":  "0123",
		"web_default_main-.log":              "",
		"web_default_main.log":               "",
		"web_default_main-0123abcd.log.1.gz": "",
		"my-own.log":                         "",
		"-a_b_c.log":                         "",
	} {
		id, ok := containerOfLink(name)
		require.Equal(t, want, id, name)
		require.Equal(t, want != "", ok, name)
	}
}

// write makes files and their folders.
func write(t *testing.T, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	}
}

func openDisk(t *testing.T, policy GCPolicy) *gcDisk {
	t.Helper()
	d, err := openGCDisk(policy)
	require.NoError(t, err)
	t.Cleanup(d.close)
	return d
}

func TestDiskListsPodsFoldersOnly(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, outside, "precious/0.log")
	write(t, root,
		"ns_web_u1/main/0.log", "ns_web_u1/main/0.log.20260701-120000.gz", "ns_web_u1/main/12.log", "ns_web_u1/main/x.log",
		"ns_web_u1/side/x.log", "ns_web_u1/stray.log", "lost+found/0.log", "ns_file_u9", goneLogs+"1/main/0.log")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "ns_web_u1/main/7.log"), 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "ns_link_u2")))
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "ns_web_u1/linked")))
	d := openDisk(t, GCPolicy{LogRoot: root})
	folders, err := d.folders()
	require.NoError(t, err)
	require.Equal(t, []logFolder{{Name: "ns_web_u1", UID: "u1", Containers: []logFiles{
		{Container: "main", RestartCounts: []int32{0, 12}}, {Container: "side"},
	}}}, folders)
	require.NoDirExists(t, filepath.Join(root, goneLogs+"1"), "what an earlier removal has left")
	require.DirExists(t, filepath.Join(root, "lost+found"))
}

func TestDiskNeverLeavesItsRoot(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, outside, "main/0.log", "0.log")
	write(t, root, "ns_web_u1/main/0.log")
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "ns_evil_u2")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "main"), filepath.Join(root, "ns_web_u1/evil")))
	d := openDisk(t, GCPolicy{LogRoot: root})
	require.Error(t, d.removeFiles("ns_web_u1/evil", "0.log"))
	require.Error(t, d.removeFiles("ns_evil_u2", "0.log"))
	require.Error(t, d.removeFiles("../"+filepath.Base(outside), "0.log"))
	require.Error(t, d.removeFolder("../"+filepath.Base(outside)))
	require.NoError(t, d.removeFolder("ns_evil_u2"))
	require.NoError(t, d.removeFolder("ns_web_u1"), "with the link in it")
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, left)
	require.FileExists(t, filepath.Join(outside, "main/0.log"))
	require.FileExists(t, filepath.Join(outside, "0.log"))
}

func TestDiskRemovesALongNameAndWhatIsGoneAlready(t *testing.T) {
	root := t.TempDir()
	long := "ns_web_" + strings.Repeat("u", 248)
	write(t, root, long+"/main/0.log")
	d := openDisk(t, GCPolicy{LogRoot: root})
	require.NoError(t, d.removeFolder(long))
	require.NoDirExists(t, filepath.Join(root, long))
	require.NoError(t, d.removeFolder(long), "twice")
	require.NoError(t, d.removeFiles("ns_web_u1/main/", "0.log"))
}

func TestDiskRemovesAllRotationsOfOneFile(t *testing.T) {
	root := t.TempDir()
	write(t, root, "p/main/1.log", "p/main/1.log.20260701-120000", "p/main/1.log.20260701-110000.gz", "p/main/11.log", "p/main/1.logx")
	d := openDisk(t, GCPolicy{LogRoot: root})
	require.NoError(t, d.removeFiles("p/main/", "1.log"))
	left, err := os.ReadDir(filepath.Join(root, "p/main"))
	require.NoError(t, err)
	require.Len(t, left, 2)
}

func TestDiskFindsDeadLinks(t *testing.T) {
	root, links := t.TempDir(), t.TempDir()
	write(t, root, "0.log")
	write(t, links, "file_default_main-1.log")
	for name, target := range map[string]string{
		"live_default_main-1.log": filepath.Join(root, "0.log"),
		"dead_default_main-2.log": filepath.Join(root, "1.log"),
		"dead_but_foreign.log":    filepath.Join(root, "1.log"),
		"loop_default_main-3.log": filepath.Join(links, "loop_default_main-3.log"),
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(links, name)))
	}
	d := openDisk(t, GCPolicy{LinkDir: links})
	dead, err := d.deadLinks()
	require.NoError(t, err)
	require.Equal(t, []logLink{{Name: "dead_default_main-2.log", ContainerID: "2"}}, dead)
	require.NoError(t, d.removeLink("dead_default_main-2.log"))
	require.NoError(t, d.removeLink("dead_default_main-2.log"), "twice")
	_, err = os.Lstat(filepath.Join(links, "dead_default_main-2.log"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestDiskThatIsNotThereIsEmpty(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "x")
	for _, policy := range []GCPolicy{{}, {LogRoot: missing, LinkDir: missing}} {
		d := openDisk(t, policy)
		folders, err := d.folders()
		require.NoError(t, err)
		require.Empty(t, folders)
		links, err := d.deadLinks()
		require.NoError(t, err)
		require.Empty(t, links)
	}
}

func TestGCPolicyNamesTheBadField(t *testing.T) {
	for field, p := range map[string]GCPolicy{
		"GCPolicy.MinAge":             {MinAge: -1},
		"GCPolicy.MaxPerPodContainer": {MaxPerPodContainer: gcNone - 1},
		"GCPolicy.MaxContainers":      {MaxContainers: gcNone - 1},
		"GCPolicy.LogRoot":            {LogRoot: "logs"},
		"GCPolicy.LinkDir":            {LinkDir: "links"},
	} {
		require.ErrorContains(t, p.validate(), field)
	}
	require.NoError(t, GCPolicy{LogRoot: "/logs", LinkDir: "/links"}.validate())
	require.NoError(t, GCPolicy{}.validate())
	require.NoError(t, GCPolicy{MaxPerPodContainer: gcNone, MaxContainers: gcNone}.validate())
}

// remainless is a Runtime without remains of any pod.
type remainless struct{ Runtime }

func (remainless) PodStatus(context.Context, types.UID) (*PodStatus, error) { return &PodStatus{}, nil }

// A log folder that cannot be removed is told.
func TestLogFolderThatStaysIsTold(t *testing.T) {
	c := collection{
		m: &Manager{rt: keepApart(remainless{})}, disk: openDisk(t, GCPolicy{LogRoot: t.TempDir()}),
		query: GCQuery{Fate: func(types.UID) PodFate { return PodGone }},
	}
	require.Error(t, c.podLogs(t.Context(), gcAction{Path: "../outside"}))
}

// The age of an instance counts from its end, and from its creation if it never ran.
func TestLacksTimes(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		c    ContainerStatus
		want bool
	}{
		"running":             {ContainerStatus{State: StateRunning}, false},
		"created":             {ContainerStatus{State: StateCreated, CreatedAt: at}, false},
		"created, no time":    {ContainerStatus{State: StateCreated}, true},
		"unknown":             {ContainerStatus{State: StateUnknown, CreatedAt: at}, false},
		"exited":              {ContainerStatus{State: StateExited, CreatedAt: at, FinishedAt: at}, false},
		"exited, no end":      {ContainerStatus{State: StateExited, CreatedAt: at}, true},
		"exited, no creation": {ContainerStatus{State: StateExited, FinishedAt: at}, true},
	} {
		require.Equal(t, tc.want, lacksTimes(&PodStatus{Containers: []ContainerStatus{tc.c}}), name)
	}
}
