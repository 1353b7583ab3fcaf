// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/internal/testport"
)

var (
	kills      = flag.Int("soak.kills", 1000, "how often TestKills kills the agent on each backend")
	killsAwait = flag.Duration("soak.patience", tidyWithin, "how long TestKills waits; more is for a machine with much else to do")
)

// tidyWithin is the time an agent has after its start to remove the leftovers of its predecessor.
const tidyWithin = 10 * time.Second

// TestKills kills the agent with SIGKILL at random instants while the agent creates and removes
// pods, removes their manifests, and restarts the agent. 10 s later nothing of these pods may be
// left on the node, as seen from outside.
func TestKills(t *testing.T) {
	n := *kills
	switch {
	case os.Getenv("KEELSON_SOAK") == "1":
	case os.Getenv("KEELSON_E2E") == "1":
		n = 5
	default:
		t.Skip("takes hours: runs with KEELSON_SOAK=1, as in make kills")
	}
	t.Run("process", func(t *testing.T) { newKillNode(t, nil).run(n) })
	t.Run("containerd", func(t *testing.T) {
		c := containerdtest.Start(t, containerdtest.Options{})
		t.Logf("containerd %s", c.Version)
		newKillNode(t, &killEngine{T: t, c: c}).run(n)
	})
}

// killNode is a node whose agent is killed.
type killNode struct {
	*testing.T
	engine *killEngine // nil on the process backend
	agent  *agent
	rng    *rand.Rand

	dir, manifests, root string
	round                int
	idle                 map[string]bool // paths below root of an agent without pods
	wrongs               []string
	took                 []time.Duration
	counts               map[string]int
}

func newKillNode(t *testing.T, engine *killEngine) *killNode {
	dir, err := os.MkdirTemp("", "keelson-kills-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	n := &killNode{
		T: t, engine: engine, dir: dir, manifests: filepath.Join(dir, "manifests"), root: filepath.Join(dir, "root"),
		counts: make(map[string]int),
	}
	t.Cleanup(n.clean)
	require.NoError(t, os.Mkdir(n.manifests, 0o755))
	s := *seed
	if s == 0 {
		s = rand.Uint64() % 1_000_000
	}
	t.Logf("seed %d (again: -soak.seed %d)", s, s)
	n.rng = rand.New(rand.NewPCG(s, 2))
	n.agent = &agent{
		path: filepath.Join(dir, "nodeagent"), log: filepath.Join(dir, "agent.log"), port: testport.Free(t), journal: newJournal(),
		args:   []string{n.manifests, "--root-dir", n.root, "--image-gc-high-threshold=100", "--container-runtime-endpoint", n.endpoint()},
		mayEnd: func() bool { return false },
		wrong:  func(format string, args ...any) { n.wrongs = append(n.wrongs, fmt.Sprintf(format, args...)) },
	}
	if *agentPath != "" {
		n.agent.path = *agentPath
	} else {
		build(t, n.agent.path, "../../examples/nodeagent", *agentBuild)
	}
	return n
}

func (n *killNode) endpoint() string {
	if n.engine == nil {
		return "process"
	}
	return n.engine.c.Endpoint()
}

func (n *killNode) clean() {
	if n.agent != nil {
		n.agent.stop(syscall.SIGKILL)
	}
	for _, pid := range n.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, m := range mountsBelow(n.T, n.dir) {
		_ = syscall.Unmount(m, syscall.MNT_DETACH)
	}
	if !*keep {
		_ = os.RemoveAll(n.dir)
	}
}

// run kills the agent so often. A round without a kill first records the state of an idle node.
func (n *killNode) run(kills int) {
	require.NoError(n, n.agent.start())
	n.write()
	n.awaitRunning()
	n.removeManifests()
	n.await("the pods of the round without a kill are gone", time.Minute, func() []string {
		if n.engine != nil {
			return n.engine.left()
		}
		return n.runningPods()
	})
	time.Sleep(2 * time.Second) // the last folders go
	n.idle = n.paths()
	for path := range n.idle {
		require.NotContains(n, path, "kills-0", "the round without a kill has left it")
	}
	for n.round = 1; n.round <= kills; n.round++ {
		n.kill()
		n.await(tidy, *killsAwait, n.left)
		if n.round%20 == 0 {
			n.report()
		}
	}
	n.round--
	n.report()
}

// kill kills the agent while the agent creates pods, or creates and removes pods.
func (n *killNode) kill() {
	n.write()
	if n.rng.IntN(2) == 0 {
		n.counts["killed after manifests were written"]++
	} else {
		n.awaitRunning()
		n.removeManifests()
		n.counts["killed after manifests were removed"]++
	}
	time.Sleep(time.Duration(n.rng.Int64N(int64(1500 * time.Millisecond))))
	n.agent.signal(syscall.SIGKILL)
	if len(n.left()) == 0 {
		n.counts["nothing was there when it was killed"]++
	}
	n.removeManifests()
	require.NoError(n, n.agent.start())
}

// podsPerKill are the manifests of a round: with a network of their own, with a volume
// in memory, with an init container.
const podsPerKill = 3

func (n *killNode) podName(i int) string { return fmt.Sprintf("kills-%d-%d", n.round, i) }

func (n *killNode) write() {
	for i := range podsPerKill {
		network, init := "", ""
		if n.engine != nil && i > 0 {
			network = "  hostNetwork: true\n"
		}
		command := `["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"]`
		image := containerdtest.BusyboxImage
		if i == 2 {
			init = "  initContainers:\n  - {name: first, image: " + image + ", imagePullPolicy: Never, command: [/bin/sh, -c, sleep 0.2]}\n"
		}
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + n.podName(i) + "}\nspec:\n  terminationGracePeriodSeconds: 1\n" + network + init +
			"  volumes: [{name: v, emptyDir: {medium: Memory}}, {name: d, emptyDir: {}}]\n  containers:\n" +
			"  - {name: a, image: " + image + ", imagePullPolicy: Never, command: " + command + ", volumeMounts: [{name: v, mountPath: /v}, {name: d, mountPath: /d}]}\n" +
			"  - {name: b, image: " + image + ", imagePullPolicy: Never, command: " + command + "}\n"
		temp := filepath.Join(n.manifests, "."+n.podName(i))
		require.NoError(n, os.WriteFile(temp, []byte(text), 0o600))
		require.NoError(n, os.Rename(temp, filepath.Join(n.manifests, n.podName(i)+".yaml")))
	}
}

func (n *killNode) removeManifests() {
	for i := range podsPerKill {
		err := os.Remove(filepath.Join(n.manifests, n.podName(i)+".yaml"))
		if !os.IsNotExist(err) {
			require.NoError(n, err)
		}
	}
}

// awaitRunning waits until each container of the round runs.
func (n *killNode) awaitRunning() {
	n.await("the pods run", 2*time.Minute, func() (missing []string) {
		s, err := n.agent.pods()
		if err != nil {
			return []string{err.Error()}
		}
		running := 0
		for i := range s.pods {
			for _, c := range s.pods[i].Status.ContainerStatuses {
				if c.State.Running != nil {
					running++
				}
			}
		}
		if running < 2*podsPerKill {
			return []string{fmt.Sprintf("%d containers run", running)}
		}
		return nil
	})
}

func (n *killNode) runningPods() (names []string) {
	s, err := n.agent.pods()
	if err != nil {
		return []string{err.Error()}
	}
	for i := range s.pods {
		names = append(names, s.pods[i].Name)
	}
	return names
}

const tidy = "nothing is left"

// await waits until look finds nothing.
func (n *killNode) await(what string, patience time.Duration, look func() []string) {
	n.Helper()
	began := time.Now()
	var last []string
	for {
		found := look()
		took := time.Since(began)
		switch {
		case len(n.wrongs) > 0:
			n.tell()
			n.Fatalf("round %d: %v", n.round, n.wrongs)
		case len(found) == 0:
			if what == tidy {
				n.took = append(n.took, took)
				if took > tidyWithin {
					n.Logf("round %d: it took %s; a look before there was left:\n  %s", n.round, took, strings.Join(last, "\n  "))
				}
			}
			return
		case took > patience:
			n.tell()
			n.Fatalf("round %d: not within %s: %s:\n  %s", n.round, patience, what, strings.Join(found, "\n  "))
		}
		last = found
		time.Sleep(20 * time.Millisecond)
	}
}

// tell prints the reports of the auditor and the agent's log.
func (n *killNode) tell() {
	audit, _ := exec.Command(n.agent.path, "audit", "--root-dir", n.root, "--container-runtime-endpoint", n.endpoint()).CombinedOutput()
	n.Logf("nodeagent audit:\n%s", audit)
	log, _ := os.ReadFile(n.agent.log)
	n.Logf("the end of the agent's log:\n%s", log[max(0, len(log)-30_000):])
	if n.engine != nil {
		n.Logf("the end of containerd's log:\n%s", n.engine.c.LogTail())
	}
}

// left returns the leftovers on the node.
func (n *killNode) left() (left []string) {
	for path := range n.paths() {
		if !n.idle[path] {
			left = append(left, "path "+path)
		}
	}
	for _, m := range mountsBelow(n.T, n.dir) {
		left = append(left, "mount "+m)
	}
	if n.engine != nil {
		left = append(left, n.engine.left()...)
	}
	for what, pid := range n.processes() {
		left = append(left, fmt.Sprintf("process %d: %s", pid, what))
	}
	slices.Sort(left)
	return left
}

// paths are all files and folders below the agent's root.
func (n *killNode) paths() map[string]bool {
	found := make(map[string]bool)
	_ = filepath.WalkDir(n.root, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			found[path] = true
		}
		return nil
	})
	return found
}

// processes are those with the root folder in their arguments or environment, but for
// the agent itself.
func (n *killNode) processes() map[string]int {
	found := make(map[string]int)
	for pid, args := range commandLines() {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		line := strings.Join(args, " ")
		if args[0] != n.agent.path && (strings.Contains(line, n.root) || strings.Contains(string(environ), n.root)) {
			found[fmt.Sprint(pid, " ", line)] = pid
		}
	}
	return found
}

func (n *killNode) report() {
	took := slices.Sorted(slices.Values(n.took))
	if len(took) == 0 {
		return
	}
	n.Logf("%d kills: nothing left after %s (median), %s (p99), %s (worst)", len(took), took[len(took)/2].Round(time.Millisecond),
		took[len(took)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	late := 0
	for _, d := range took {
		if d > tidyWithin {
			late++
		}
	}
	n.Logf("%5d × it took more than %s", late, tidyWithin)
	for _, what := range slices.Sorted(maps.Keys(n.counts)) {
		n.Logf("%5d × %s", n.counts[what], what)
	}
}

// killEngine is containerd, seen from outside.
type killEngine struct {
	*testing.T
	c *containerdtest.Instance
}

// left returns containerd's records of pods, and resources without a record.
func (e *killEngine) left() (left []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	dir := filepath.Dir(e.c.Socket)
	for _, list := range [][]string{{"containers", "ls", "-q"}, {"tasks", "ls", "-q"}} {
		out, err := e.c.Ctr(ctx, list...)
		if err != nil {
			left = append(left, err.Error())
		}
		for id := range strings.FieldsSeq(string(out)) {
			left = append(left, "ctr "+list[0]+" "+id)
		}
	}
	sandboxes, err := e.c.Runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		left = append(left, err.Error())
	}
	for _, s := range sandboxes.GetItems() {
		left = append(left, "sandbox "+s.GetId()+" of "+s.GetMetadata().GetName())
	}
	containers, err := e.c.Runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		left = append(left, err.Error())
	}
	for _, c := range containers.GetContainers() {
		left = append(left, "container "+c.GetId()+" "+c.GetMetadata().GetName())
	}
	pids := e.c.PIDs()
	for _, pid := range pids.Shims {
		left = append(left, fmt.Sprintf("shim %d of %s", pid, idOfProcess(pid)))
	}
	for _, pid := range pids.Containers {
		left = append(left, fmt.Sprintf("process %d of %s", pid, idOfProcess(pid)))
	}
	for _, pattern := range []string{
		"state/io.containerd.runtime.v2.task/k8s.io/*", "runc/k8s.io/*", "cni-data/*/[0-9]*",
		"state/io.containerd.grpc.v1.cri/*/*", "root/io.containerd.grpc.v1.cri/*/*", "state/netns/*",
	} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(e, err)
		left = append(left, paths...)
	}
	for _, m := range mountsBelow(e.T, dir) {
		left = append(left, "mount "+m)
	}
	return left
}
