// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// node is an agent's view of the shared containerd.
type node struct {
	testing.TB
	rt   cri.Backend
	root string
	gen  *runtime.DefaultGenerator
}

func newNode(t testing.TB, opts cri.Options) *node { return newNodeOn(t, containerd.Get(t), opts) }

func newNodeOn(t testing.TB, c *containerdtest.Instance, opts cri.Options) *node {
	opts.Root = t.TempDir()
	rt, err := cri.Dial(t.Context(), c.Endpoint(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	gen, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: filepath.Join(opts.Root, "logs")})
	require.NoError(t, err)
	return &node{TB: t, rt: rt, root: opts.Root, gen: gen}
}

// pod returns a pod with one container running script in a shell.
func pod(name, script string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID("uid-" + name), Namespace: "cri", Name: name},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", Image: containerdtest.BusyboxImage, Command: []string{"sh", "-c", script},
		}}},
	}
}

// start makes a sandbox and runs the pod's container in the sandbox. The test's cleanup removes
// both.
func (n *node) start(p *v1.Pod) runtime.ContainerID {
	n.Helper()
	spec, err := n.gen.Sandbox(n.Context(), p, 0)
	require.NoError(n, err)
	sb, err := n.rt.RunSandbox(n.Context(), spec)
	require.NoError(n, err)
	n.Cleanup(func() { assert.NoError(n, n.rt.RemoveSandbox(context.Background(), sb)) })
	return n.startIn(sb, p, 0)
}

func (n *node) startIn(sb runtime.SandboxID, p *v1.Pod, restarts int32) runtime.ContainerID {
	n.Helper()
	spec, _, err := n.gen.Container(n.Context(), p, runtime.Ref{}, runtime.ContainerInput{RestartCount: restarts, Hash: containermeta.Hash(&p.Spec.Containers[0])})
	require.NoError(n, err)
	id, err := n.rt.CreateContainer(n.Context(), sb, spec)
	require.NoError(n, err)
	require.NoError(n, n.rt.StartContainer(n.Context(), id))
	return id
}

// ended waits until the pod's newest container has.
func (n *node) ended(p *v1.Pod) (c *runtime.ContainerStatus) {
	n.Helper()
	n.await(func() bool {
		st, err := n.rt.PodStatus(n.Context(), p.UID)
		require.NoError(n, err)
		c = st.Latest("main")
		return c != nil && c.State == runtime.StateExited
	})
	return c
}

// output waits for the container's last line, "end", and returns stdout. An exit may be known a
// moment before the last line is in the file.
func (n *node) output(c *runtime.ContainerStatus) string {
	n.Helper()
	var out strings.Builder
	n.await(func() bool {
		raw, err := os.ReadFile(c.LogPath)
		require.NoError(n, err)
		out.Reset()
		for line := range strings.Lines(string(raw)) {
			if f := strings.SplitN(line, " ", 4); len(f) == 4 && f[1] == "stdout" {
				out.WriteString(f[3])
			}
		}
		return strings.HasSuffix(out.String(), "end\n")
	})
	return out.String()
}

// await asks again and again until done says so.
func (n *node) await(done func() bool) {
	n.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !done(); <-ticker.C {
		require.True(n, time.Now().Before(deadline), "it does not happen")
	}
}

func TestPodsFiles(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{DNS: cri.DNS{Servers: []string{"10.96.0.10"}, Domain: "cluster.local"}})
	p := pod("files", "cat /etc/hosts /etc/resolv.conf; hostname; echo $HOSTNAME; echo last words >/dev/termination-log; echo end; exit 3")
	p.Spec.Hostname = "web"
	p.Spec.HostAliases = []v1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"alias"}}}
	n.start(p)
	c := n.ended(p)
	out := n.output(c)
	st, err := n.rt.PodStatus(t.Context(), p.UID)
	require.NoError(t, err)
	require.NotEmpty(t, st.Sandboxes[0].IPs)
	assert.Contains(t, out, "# Kubernetes-managed hosts file.")
	assert.Contains(t, out, st.Sandboxes[0].IPs[0]+"\tweb\n")
	assert.Contains(t, out, "1.2.3.4\talias\n")
	assert.Contains(t, out, "nameserver 10.96.0.10\n")
	assert.Contains(t, out, "search cri.svc.cluster.local svc.cluster.local cluster.local")
	assert.Contains(t, out, "web\nweb\n", "the hostname, and in the environment")
	assert.EqualValues(t, 3, c.ExitCode)
	assert.Equal(t, "Error", c.Reason)
	assert.Equal(t, "last words\n", c.Message)
	require.NoError(t, n.rt.RemoveSandbox(t.Context(), st.Sandboxes[0].ID))
	assert.NoDirExists(t, filepath.Join(n.root, "pods", string(p.UID)))
	n.rt = gone{n.rt}
}

// gone is for pods removed by the test itself.
type gone struct{ cri.Backend }

func (gone) RemoveSandbox(context.Context, runtime.SandboxID) error { return nil }

func TestMessageFromTheLog(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("log-message", "echo said before the end; exit 1")
	p.Spec.HostNetwork = true
	p.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	n.start(p)
	n.await(func() bool { return n.ended(p).Message == "said before the end\n" })
}

func TestSecurityArrives(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("security", "id -u; id -g; id -G; grep -E '^(NoNewPrivs|Seccomp|CapEff):' /proc/self/status; touch /x 2>/dev/null || echo read-only; cat /proc/1/oom_score_adj; echo end")
	user, group, yes, no := int64(1000), int64(2000), true, false
	p.Spec.HostNetwork = true
	p.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsUser: &user, RunAsGroup: &group, RunAsNonRoot: &yes, SupplementalGroups: []int64{3000},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
	}
	p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
		ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no, Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
	}
	n.start(p)
	out := n.output(n.ended(p))
	assert.True(t, strings.HasPrefix(out, "1000\n2000\n"), out)
	for _, want := range []string{"3000", "NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapEff:\t0000000000000000\n", "read-only\n1000\nend\n"} {
		assert.Contains(t, out, want)
	}
}

func TestRootIsRefusedWhereItMustNotBe(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("root", "true")
	yes := true
	p.Spec.HostNetwork = true
	p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: &yes}
	spec, err := n.gen.Sandbox(t.Context(), p, 0)
	require.NoError(t, err)
	sb, err := n.rt.RunSandbox(t.Context(), spec)
	require.NoError(t, err)
	defer func() { assert.NoError(t, n.rt.RemoveSandbox(t.Context(), sb)) }()
	c, _, err := n.gen.Container(t.Context(), p, runtime.Ref{}, runtime.ContainerInput{})
	require.NoError(t, err)
	_, err = n.rt.CreateContainer(t.Context(), sb, c)
	assert.ErrorContains(t, err, "securityContext.runAsNonRoot: the image runs as root")
}

func TestUpstream128675LimitsAreTakenAway(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("resources", "trap 'exit 0' TERM; sleep 1000 & wait")
	p.Spec.HostNetwork = true
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("64Mi")}
	id := n.start(p)
	limits := func() *v1.ResourceList {
		st, err := n.rt.PodStatus(t.Context(), p.UID)
		require.NoError(t, err)
		require.NotNil(t, st.Containers[0].Resources)
		return &st.Containers[0].Resources.Limits
	}
	assert.Equal(t, "500m", limits().Cpu().String())
	assert.Equal(t, "64Mi", limits().Memory().String())
	// Read the limit from the kernel: cgroup v2, or v1.
	kernel := func() string {
		out, _, _, err := n.rt.Exec(t.Context(), id, []string{"sh", "-c", `cd /sys/fs/cgroup
			if [ -f memory.max ]; then echo $(cat memory.max cpu.max); else
			echo $(cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us); fi`})
		require.NoError(t, err)
		return strings.NewReplacer("max", "-1", "9223372036854771712", "-1").Replace(strings.TrimSpace(string(out)))
	}
	assert.Equal(t, "67108864 50000 100000", kernel())
	update := func(limits v1.ResourceList) {
		t.Helper()
		require.NoError(t, n.rt.UpdateResources(t.Context(), id, v1.ResourceRequirements{Limits: limits}))
	}
	update(v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("32Mi")})
	assert.Equal(t, "33554432 25000 100000", kernel())
	update(v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")})
	assert.Equal(t, "250m", limits().Cpu().String())
	assert.NotContains(t, *limits(), v1.ResourceMemory)
	assert.Equal(t, "-1 25000 100000", kernel(), "what is not said is taken away (kubernetes#128675)")
	update(nil)
	assert.Empty(t, *limits())
	assert.Equal(t, "-1 -1 100000", kernel())
	update(v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("64Mi")})
	assert.Equal(t, "67108864 50000 100000", kernel())

	require.NoError(t, os.Rename(n.root+"/logs/cri_resources_uid-resources/main/0.log", n.root+"/logs/old"))
	require.NoError(t, n.rt.ReopenLog(t.Context(), id))
	assert.FileExists(t, n.root+"/logs/cri_resources_uid-resources/main/0.log")
}

// A container restarts in a sandbox made by an earlier agent.
func TestNextAgentGoesOn(t *testing.T) {
	t.Parallel()
	first := newNode(t, cri.Options{})
	p := pod("next", "hostname; cat /etc/hosts; echo end")
	p.Spec.Hostname = "kept"
	first.start(p)
	first.ended(p)
	st, err := first.rt.PodStatus(t.Context(), p.UID)
	require.NoError(t, err)

	second := newNode(t, cri.Options{})
	second.gen = first.gen
	second.startIn(st.Sandboxes[0].ID, p, 1)
	c := second.ended(p)
	assert.EqualValues(t, 1, c.RestartCount)
	assert.Equal(t, containermeta.Hash(&p.Spec.Containers[0]), c.Hash)
	assert.Contains(t, second.output(c), st.Sandboxes[0].IPs[0]+"\tkept\n")
	require.NoError(t, second.rt.RemoveContainer(t.Context(), c.ID))
}

func TestImages(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	id, err := n.rt.ImageID(t.Context(), containerdtest.BusyboxImage)
	require.NoError(t, err)
	assert.Contains(t, id, "sha256:")
	id, err = n.rt.ImageID(t.Context(), "localhost/absent:1")
	require.NoError(t, err)
	assert.Empty(t, id)
	images, err := n.rt.ListImages(t.Context())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(images), 2)
	assert.NoError(t, n.rt.RemoveImage(t.Context(), "localhost/absent:1"))
	_, err = n.rt.ImageFsInfo(t.Context())
	assert.NoError(t, err)
	_, err = n.rt.PullImage(t.Context(), "localhost:1/absent:1", nil)
	assert.Error(t, err)
	assert.NotErrorIs(t, err, runtime.ErrNotFound)
}

func TestProbeOfContainerd(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	c := containerd.Get(t)
	info := n.rt.Info()
	assert.Equal(t, "containerd", info.Name)
	assert.Equal(t, c.HasEvents, info.Events)
	_, watches := n.rt.(runtime.Watcher)
	assert.Equal(t, c.HasEvents, watches)
	assert.Equal(t, c.HasEvents, info.CgroupDriver != "", "RuntimeConfig came with events")
	assert.NoError(t, n.rt.Ready(t.Context()))
}
