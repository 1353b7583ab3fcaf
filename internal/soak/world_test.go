// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/internal/testport"
)

// world is a node: an agent, a containerd, manifests, and their recorded history.
type world struct {
	*testing.T
	journal *journal
	ledger  *ledger
	engine  *engine
	agent   *agent
	folder  Folder

	dir, manifests, objects, root string
	version                       int // of the ConfigMap; the driver's own

	seen struct {
		sync.Mutex
		last map[string]string // summaries, by UID
		ids  map[string]bool   // of containers and sandboxes
	}
}

// newWorld starts everything. The world ends with the test.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, journal: newJournal()}
	w.ledger = newLedger(w.journal)
	w.seen.last, w.seen.ids = make(map[string]string), make(map[string]bool)
	w.makeFolders()
	w.engine = &engine{c: containerdtest.Start(t, containerdtest.Options{}), world: w}
	t.Cleanup(w.keepLogs)
	w.agent = &agent{
		path: filepath.Join(w.dir, "nodeagent"), log: filepath.Join(w.dir, "agent.log"), port: testport.Free(t), journal: w.journal,
		args: []string{
			w.manifests, "--root-dir", w.root, "--objects-path", w.objects,
			"--container-runtime-endpoint", w.engine.c.Endpoint(), "-v", "1",
			"--image-gc-high-threshold=100", // the image cannot be pulled again, however full the disk is
		},
		mayEnd: w.engine.disturbed, wrong: w.wrong,
	}
	if *agentPath != "" {
		w.agent.path = *agentPath
	} else {
		build(t, w.agent.path, "../../examples/nodeagent", *agentBuild)
	}
	build(t, w.folder.Program(), "./witness", "")
	w.writeConfig()
	require.NoError(t, w.agent.start())
	t.Cleanup(func() {
		w.agent.stop(syscall.SIGKILL)
		w.endProcesses()
		if t.Failed() {
			w.tell()
			w.endCgroups()
		}
	})
	return w
}

func (w *world) makeFolders() {
	var err error
	w.dir, err = os.MkdirTemp("", "keelson-soak-")
	require.NoError(w, err)
	require.NoError(w, os.Chmod(w.dir, 0o755))
	w.Cleanup(func() {
		for _, m := range mountsBelow(w.T, w.dir) {
			_ = syscall.Unmount(m, syscall.MNT_DETACH)
		}
		if *keep {
			require.NoError(w, os.WriteFile(filepath.Join(w.dir, "journal"), []byte(w.journal.String()), 0o644))
			w.Logf("everything is in %s", w.dir)
			return
		}
		require.NoError(w, os.RemoveAll(w.dir))
	})
	w.folder = Folder(filepath.Join(w.dir, "shared"))
	w.manifests, w.objects, w.root = filepath.Join(w.dir, "manifests"), filepath.Join(w.dir, "objects"), filepath.Join(w.dir, "root")
	for _, dir := range []string{w.manifests, w.objects, string(w.folder)} {
		require.NoError(w, os.Mkdir(dir, 0o755))
	}
	require.NoError(w, w.folder.Make())
}

// keepLogs copies the logs that are removed with containerd.
func (w *world) keepLogs() {
	if !*keep {
		return
	}
	log, err := os.ReadFile(w.engine.log())
	require.NoError(w, err)
	require.NoError(w, os.WriteFile(filepath.Join(w.dir, "containerd.log"), log, 0o644))
}

// build makes a statically linked program.
func build(t *testing.T, out, pkg, flags string) {
	t.Helper()
	args := append([]string{"build", "-tags", "grpcnotrace", "-buildvcs=false", "-o", out}, strings.Fields(flags)...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, pkg)...)
	cmd.Env = os.Environ()
	if !strings.Contains(flags, "-race") {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOFLAGS=")
	}
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "go build %s: %s", pkg, text)
}

func (w *world) wrong(format string, args ...any) {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	w.ledger.violate(format, args...)
}

// put puts a file in place at once, as deploy tools do it.
func (w *world) put(dir, name string, text []byte) {
	temp := filepath.Join(dir, "."+name+".new")
	require.NoError(w, os.WriteFile(temp, text, 0o644))
	require.NoError(w, os.Rename(temp, filepath.Join(dir, name)))
}

// writeConfig writes the next version of the ConfigMap.
func (w *world) writeConfig() {
	w.version++
	version := fmt.Sprint(w.version)
	payload := strings.Repeat(version+" ", 500)
	sum := sha256.Sum256([]byte(version + payload))
	text, err := yaml.Marshal(&v1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: configName},
		Data:       map[string]string{"version": version, "payload": payload, "sum": hex.EncodeToString(sum[:])},
	})
	require.NoError(w, err)
	w.put(w.objects, "config.yaml", text)
}

// observe looks at the node until ctx ends: at the records all the time, at the
// CRI now and then.
func (w *world) observe(ctx context.Context) {
	f := &follower{path: w.folder.Records()}
	defer f.close()
	for n := 0; ctx.Err() == nil; n++ {
		s, asked := w.agent.pods()
		records, err := f.read() // after the sample, so that its records are written
		if err != nil {
			w.wrong("read the records: %v", err)
			return
		}
		for _, r := range records {
			w.journal.say("%s %s", r.At.UTC().Format(timeFormat), r)
			w.ledger.record(r)
		}
		if asked == nil {
			w.note(s)
			w.ledger.sampled(s)
		}
		if n%5 == 0 {
			w.list(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(80 * time.Millisecond):
		}
	}
}

// note records the changes of /pods in the journal.
func (w *world) note(s sample) {
	w.seen.Lock()
	defer w.seen.Unlock()
	now := make(map[string]string)
	for i := range s.pods {
		uid := string(s.pods[i].UID)
		now[uid] = summary(&s.pods[i])
		if now[uid] != w.seen.last[uid] {
			w.journal.say("status %s", now[uid])
		}
	}
	for uid, text := range w.seen.last {
		if _, still := now[uid]; !still {
			w.journal.say("status gone: %s", text)
		}
	}
	w.seen.last = now
}

// list lists sandboxes and containers by CRI, and remembers their IDs.
func (w *world) list(ctx context.Context) (sandboxes []*cri.PodSandbox, containers []*cri.Container, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	s, err := w.engine.c.Runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, nil, err
	}
	c, err := w.engine.c.Runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return nil, nil, err
	}
	w.seen.Lock()
	defer w.seen.Unlock()
	for _, x := range s.GetItems() {
		w.seen.ids[x.GetId()] = true
	}
	for _, x := range c.GetContainers() {
		w.seen.ids[x.GetId()] = true
	}
	return s.GetItems(), c.GetContainers(), nil
}

// idsSeen returns the IDs of all containers and sandboxes so far.
func (w *world) idsSeen() map[string]bool {
	w.seen.Lock()
	defer w.seen.Unlock()
	return maps.Clone(w.seen.ids)
}

// view looks at everything.
func (w *world) view(ctx context.Context) (v *view, err error) {
	v = &view{version: w.version}
	if v.sample, err = w.agent.pods(); err != nil {
		return nil, err
	}
	if v.sandboxes, v.containers, err = w.list(ctx); err != nil {
		return nil, err
	}
	v.processes = w.processes()
	return v, nil
}
