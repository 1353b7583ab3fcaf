// SPDX-License-Identifier: Apache-2.0

package fsnotify_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

func pod(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n  - name: main\n    image: %s\n", name, image)
}

// node runs a source on a real folder, without polling, and checks that no snapshot lacks a pod of
// "healthy".
type node struct {
	*testing.T
	dir       string
	healthy   []string
	store     *podconfig.Store
	snapshots chan []string
	problems  chan string
}

func (n *node) Submit(ctx context.Context, c podconfig.Change) error {
	if _, err := n.store.Merge(ctx, podconfig.SourceFile, c); err != nil {
		return err
	}
	got := []string{}
	for _, p := range n.store.Pods() {
		got = append(got, strings.TrimSuffix(p.Name, "-n")+"="+p.Spec.Containers[0].Image)
	}
	select {
	case n.snapshots <- got:
	case <-ctx.Done():
	}
	return nil
}

func newNode(t *testing.T, dir string, healthy ...string) *node {
	store, err := podconfig.NewStore(podconfig.StoreOptions{})
	require.NoError(t, err)
	return &node{T: t, dir: dir, healthy: healthy, store: store, snapshots: make(chan []string, 100), problems: make(chan string, 100)}
}

func start(t *testing.T, healthy ...string) *node {
	n := newNode(t, t.TempDir()+"/pods", healthy...)
	require.NoError(t, os.Mkdir(n.dir, 0o755))
	for _, name := range healthy {
		write(t, n.path(name+".yaml"), pod(name, "old"))
	}
	n.run(n.dir)
	want := []string{}
	for _, name := range healthy {
		want = append(want, name+"=old")
	}
	n.await(want...)
	return n
}

// run runs a source of path until the end of the test, and then checks that it stops.
func (n *node) run(path string) {
	src, err := file.New(file.Config{
		Path: path, Decoder: &manifest.Decoder{NodeName: "n", Strict: true}, Hinter: fsnotify.Hinter{}, Period: time.Hour,
		Problem: func(path string, err error) { n.problems <- fmt.Sprint(path, " ", err) },
	})
	require.NoError(n, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- src.Run(ctx, n) }()
	n.Cleanup(func() {
		cancel()
		require.NoError(n, <-done)
	})
}

func (n *node) path(name string) string { return n.dir + "/" + name }

// await receives snapshots until one equals want.
func (n *node) await(want ...string) {
	n.Helper()
	slices.Sort(want)
	limit := time.After(patience)
	var last []string
	for {
		select {
		case last = <-n.snapshots:
		case <-limit:
			require.Fail(n, "no such snapshot", "want %q, last %q, problems %d", want, last, len(n.problems))
		}
		for _, name := range n.healthy {
			require.True(n, slices.ContainsFunc(last, func(s string) bool { return strings.HasPrefix(s, name+"=") }),
				"%s ended: %q", name, last)
		}
		if slices.Sort(last); slices.Equal(want, last) {
			return
		}
	}
}

// shell runs a command in the folder.
func (n *node) shell(command string, args ...string) {
	n.Helper()
	path, err := exec.LookPath(command)
	if err != nil {
		n.Skip("not installed:", command)
	}
	cmd := exec.CommandContext(n.Context(), path, args...)
	cmd.Dir = n.dir
	out, err := cmd.CombinedOutput()
	require.NoError(n, err, "%s", out)
}

// TestHabits edits the file of a running pod in the ways of people and programs.
func TestHabits(t *testing.T) {
	vim := func(n *node, set string) {
		n.shell("vim", "-u", "NONE", "-N", "-es", "-c", "set backupskip= "+set, "-c", "%s/old/new/", "-c", "wq", "a.yaml")
	}
	habits := map[string]func(n *node){
		"vim":             func(n *node) { vim(n, "nobackup") },
		"vim with backup": func(n *node) { vim(n, "backup backupcopy=no") },
		"vim in place":    func(n *node) { vim(n, "backupcopy=yes") },
		"vim by rename":   func(n *node) { vim(n, "nobackup writebackup backupcopy=no") },
		"sed -i":          func(n *node) { n.shell("sed", "-i", "s/old/new/", "a.yaml") },
		"sed -i.bak":      func(n *node) { n.shell("sed", "-i.bak", "s/old/new/", "a.yaml") },
		"mv over":         func(n *node) { write(n.T, n.dir+"/../n", pod("a", "new")); n.shell("mv", "../n", "a.yaml") },
		"mv within":       func(n *node) { write(n.T, n.path(".n"), pod("a", "new")); n.shell("mv", ".n", "a.yaml") },
		"cp over":         func(n *node) { write(n.T, n.dir+"/../n", pod("a", "new")); n.shell("cp", "../n", "a.yaml") },
		"rm and cp":       func(n *node) { n.shell("sh", "-c", "sed s/old/new/ a.yaml > ../n; rm a.yaml; cp ../n a.yaml") },
		"line by line": func(n *node) {
			n.shell("sh", "-c", "sed s/old/new/ a.yaml > ../n; : > a.yaml; while read -r l; do :; done < ../n; cat ../n >> a.yaml")
		},
		"slowly": func(n *node) {
			n.shell("sh", "-c", "sed s/old/new/ a.yaml > ../n; { head -n 8 ../n | head -c 70; sleep 0.4; tail -c +71 ../n; } > a.yaml")
		},
		"mode and owner": func(n *node) {
			n.shell("sh", "-c", "chmod 600 a.yaml; touch a.yaml; sed -i s/old/new/ a.yaml; chmod 644 a.yaml")
		},
		"folder made anew": func(n *node) {
			n.shell("sh", "-c", "sed -i s/old/new/ a.yaml; cp -r . ../copy; rm -rf ../pods; mv ../copy ../pods")
		},
		"folder swapped": func(n *node) {
			n.shell("sh", "-c", "cp -r . ../copy; sed -i s/old/new/ ../copy/a.yaml; mv ../pods ../away; mv ../copy ../pods")
		},
		"half, then whole": func(n *node) {
			write(n.T, n.path("a.yaml"), pod("a", "new")[:90])
			n.reported()
			write(n.T, n.path("a.yaml"), pod("a", "new"))
		},
		"many other writes": func(n *node) {
			n.shell("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo > .x$i; echo > .y; done; sed -i s/old/new/ a.yaml")
		},
	}
	for name, habit := range habits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, "a", "b")
			habit(n)
			n.await("a=new", "b=old")
			require.NoError(t, os.Remove(n.path("a.yaml")))
			n.healthy = []string{"b"}
			n.await("b=old")
		})
	}
}

// reported waits for the next problem.
func (n *node) reported() string {
	n.Helper()
	select {
	case p := <-n.problems:
		return p
	case <-time.After(patience):
		require.Fail(n, "no problem was reported")
		return ""
	}
}

// An atomic writer, such as the kubelet's for config maps, swaps "..data" to a folder with the new
// content.
func TestAtomicWriterIsSeenAtOnce(t *testing.T) {
	n := start(t)
	const swap = "mkdir ..$0; cat > ..$0/a.yaml; ln -s ..$0 ..tmp; mv -T ..tmp ..data; ln -sfn ..data/a.yaml a.yaml"
	for _, image := range []string{"v1", "v2", "v3"} {
		n.shell("sh", "-c", "echo \"$1\" | { "+swap+"; }", image, pod("a", image))
		n.await("a=" + image)
		n.healthy = []string{"a"}
	}
}

// In the kubelet, renaming over a single file gives the new pod, then none, and the watch is dead.
func TestUpstreamRenameOverSingleFileKillsThePod(t *testing.T) {
	n := start(t, "a")
	single := newNode(t, n.dir, "a")
	single.run(n.path("a.yaml"))
	single.await("a=old")
	for _, image := range []string{"v1", "v2", "v3"} {
		write(t, n.path(".tmp"), pod("a", image))
		n.shell("mv", ".tmp", "a.yaml")
		single.await("a=" + image)
	}
	single.healthy = nil
	n.healthy = nil
	require.NoError(t, os.Remove(n.path("a.yaml")))
	single.await()
	write(t, n.path("a.yaml"), pod("a", "v4"))
	single.await("a=v4")
}

// In the kubelet, a removed and re-created folder is never watched again.
func TestUpstreamRecreatedFolderIsNeverWatchedAgain(t *testing.T) {
	n := start(t, "a")
	n.healthy = nil
	for round := range 2 {
		require.NoError(t, os.RemoveAll(n.dir))
		n.await()
		require.NoError(t, os.MkdirAll(n.dir, 0o755))
		name := fmt.Sprintf("p%d", round)
		write(t, n.path(name), pod(name, "i"))
		n.await(name + "=i")
		write(t, n.path(name), pod(name, "j"))
		n.await(name + "=j")
	}
}

func TestFolderThatComesLater(t *testing.T) {
	base := t.TempDir()
	n := newNode(t, base+"/x/y/pods")
	n.run(n.dir)
	n.await()
	require.NoError(t, os.MkdirAll(n.dir, 0o755))
	write(t, n.path("a.yaml"), pod("a", "i"))
	n.await("a=i")
}
