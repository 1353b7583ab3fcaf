// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/pasta"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// nobodyEnv is set in a test that runs again as another user.
const nobodyEnv = "PROCESS_TEST_NOBODY"

// networkEnv is an env whose pods have networks.
type networkEnv struct {
	*env
	opts process.Options
	test runtime.Mount // a folder with the test binary
}

func newNetworked(t testing.TB) *networkEnv {
	path, err := exec.LookPath("pasta")
	if err != nil {
		t.Skip(err)
	}
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	_ = tun.Close()
	e := newIsolated(t)
	program, err := os.Executable()
	require.NoError(t, err)
	n := &networkEnv{env: e, opts: process.Options{Confine: true, Pasta: path, HostIPs: []string{"192.0.2.77", "2001:db8::77"}}}
	n.test = runtime.Mount{Name: "test", HostPath: filepath.Dir(program), ContainerPath: "/test", ReadOnly: true}
	e.rt = e.open(n.opts)
	return n
}

// start runs a pod of containers that use the network, by the variables of each.
func (n *networkEnv) start(pod *v1.Pod, containers ...[]string) runtime.SandboxID {
	n.Helper()
	program, _ := os.Executable()
	template := pod.Spec.Containers[0]
	pod.Spec.Containers = nil
	for i, variables := range containers {
		c := *template.DeepCopy()
		if i > 0 {
			c.Ports = nil
		}
		c.Name, c.Command = fmt.Sprintf("c%d", i), []string{"/test/" + filepath.Base(program)}
		for _, v := range variables {
			name, value, _ := strings.Cut(v, "=")
			c.Env = append(c.Env, v1.EnvVar{Name: name, Value: value})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	require.NoError(n, n.rt.CheckPod(pod))
	sandbox := n.sandbox(pod)
	for i := range pod.Spec.Containers {
		only := pod.DeepCopy()
		only.Spec.Containers = only.Spec.Containers[i : i+1]
		spec := n.spec(only, 0)
		spec.Mounts = []runtime.Mount{n.test}
		id, err := n.rt.CreateContainer(n.Context(), sandbox, spec)
		require.NoError(n, err)
		require.NoError(n, n.rt.StartContainer(n.Context(), id))
	}
	return sandbox
}

// says waits for a line in the log of a container.
func (n *networkEnv) says(pod *v1.Pod, container int, line string) string {
	n.Helper()
	only := pod.DeepCopy()
	only.Spec.Containers = only.Spec.Containers[container : container+1]
	n.awaitLog(only, line)
	return n.log(only, 0)
}

func (n *networkEnv) dial(pod *v1.Pod) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return n.rt.DialPod(ctx, pod.UID, network, address)
	}
}

// keepers returns the processes of networks of this env, pasta among them.
func (n *networkEnv) keepers() (out []int) {
	n.Helper()
	all, err := proc.All()
	require.NoError(n, err)
	for _, p := range all {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if strings.Contains(string(args), n.root) && (strings.HasPrefix(string(args), record.NetworkName) || strings.HasPrefix(string(args), n.opts.Pasta)) {
			out = append(out, p.PID)
		}
	}
	return out
}

// pasta returns the PID of a pod's pasta.
func (n *networkEnv) pasta(sandbox runtime.SandboxID) int {
	n.Helper()
	for _, pid := range n.keepers() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if _, tail, _ := strings.Cut(string(sandbox), ":"); strings.HasPrefix(string(args), n.opts.Pasta) && strings.Contains(string(args), tail) {
			return pid
		}
	}
	require.Fail(n, "no pasta")
	return 0
}

func (n *networkEnv) ready(pod *v1.Pod) bool {
	st, err := n.rt.PodStatus(n.background(), pod.UID)
	require.NoError(n, err)
	return len(st.Sandboxes) > 0 && st.Sandboxes[0].Ready
}

// freePort returns a port that no socket of the host has.
func freePort(t testing.TB) int {
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestPodsHaveNetworks runs two pods with the same port below 1024, and a pod on the host's network.
func TestPodsHaveNetworks(t *testing.T) {
	n := newNetworked(t)
	host, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer host.Close()
	go func() {
		for {
			c, err := host.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "the host")
			_ = c.Close()
		}
	}()
	_, hostPort, _ := net.SplitHostPort(host.Addr().String())

	first, second, third := n.pod(""), n.pod(""), n.pod("")
	port := freePort(t)
	first.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: int32(port)}, {ContainerPort: 80, HostPort: int32(port), Protocol: v1.ProtocolUDP}}
	user := int64(1234)
	first.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &user}
	third.Spec.HostNetwork = true
	reach := reachEnv + "=localhost:80 192.0.2.77:80 [::1]:80 localhost:81 127.0.0.1:" + hostPort + " 192.0.2.77:" + hostPort
	inFirst := n.start(first, []string{serveEnv + "=80"}, []string{"WAIT=1"})
	n.says(first, 0, "serves 80")
	_ = inFirst
	n.start(second, []string{serveEnv + "=80 81"})
	n.says(second, 0, "serves 81")
	n.start(third, []string{reachEnv + "=127.0.0.1:" + hostPort})
	assert.Contains(t, n.says(third, 0, "done"), "127.0.0.1:"+hostPort+" the host", "a pod on the host's network")

	// Beside the server, in another container of the pod.
	client := n.pod("")
	n.start(client, []string{serveEnv + "=80"}, []string{reach})
	assert.Equal(t, fmt.Sprintf("localhost:80 port 80 user %[1]d\n192.0.2.77:80 port 80 user %[1]d\n[::1]:80 port 80 user %[1]d\nlocalhost:81 none\n127.0.0.1:%[2]s none\n192.0.2.77:%[2]s none\ndone\n",
		os.Getuid(), hostPort), n.says(client, 1, "done"), "the containers of a pod share a loopback, and reach neither that of another pod nor the host's")

	// From the agent.
	assert.Equal(t, "port 80 user 1234", answer(n.dial(first), "192.0.2.77:80"))
	assert.Equal(t, "port 80 user 1234", answer(n.dial(first), "localhost:80"))
	assert.Equal(t, "port 80 user 1234", answer(n.dial(first), "[2001:db8::77]:80"))
	assert.Equal(t, "none", answer(n.dial(first), "192.0.2.77:81"))
	assert.Equal(t, fmt.Sprint("port 81 user ", os.Getuid()), answer(n.dial(second), "192.0.2.77:81"))
	assert.Equal(t, "the host", answer(n.dial(third), host.Addr().String()), "a pod on the host's network")

	// From outside.
	assert.Equal(t, "port 80 user 1234", answer((&net.Dialer{}).DialContext, fmt.Sprint("127.0.0.1:", port)))
	route, err := net.Dial("udp", "198.51.100.1:9") // sends nothing; pasta of 2023 loses answers to the loopback
	require.NoError(t, err)
	u, err := net.Dial("udp", net.JoinHostPort(route.LocalAddr().(*net.UDPAddr).IP.String(), fmt.Sprint(port)))
	require.NoError(t, errors.Join(err, route.Close()))
	defer u.Close()
	buf := make([]byte, 100)
	n.until("a datagram comes back", func() bool {
		_, _ = u.Write([]byte("x"))
		_ = u.SetReadDeadline(time.Now().Add(time.Second))
		got, err := u.Read(buf)
		return err == nil && string(buf[:got]) == "datagram"
	})

	// Another backend of the same state, after the agent has ended.
	n.rt = n.open(n.opts)
	assert.True(t, n.ready(first))
	assert.Equal(t, "port 80 user 1234", answer(n.dial(first), "192.0.2.77:80"))
	require.NoError(t, n.rt.StopSandbox(t.Context(), inFirst))
	assert.False(t, n.ready(first))
	assert.Equal(t, "none", answer(n.dial(first), "192.0.2.77:80"))
	assert.Equal(t, "none", answer((&net.Dialer{}).DialContext, fmt.Sprint("127.0.0.1:", port)))
	n.removeAll()
	assert.Empty(t, n.keepers())
}

// TestExecIsInTheNetwork runs a command beside a container.
func TestExecIsInTheNetwork(t *testing.T) {
	n := newNetworked(t)
	pod := n.pod("")
	n.start(pod, []string{serveEnv + "=80"})
	n.says(pod, 0, "serves 80")
	st := n.seen(pod)
	program, _ := os.Executable()
	out, _, code, err := n.rt.Exec(t.Context(), st.Containers[0].ID, []string{"/bin/sh", "-c",
		"readlink /proc/self/ns/net; " + serveEnv + "= " + reachEnv + "=localhost:80 timeout 2 /test/" + filepath.Base(program)})
	require.NoError(t, err)
	assert.Equal(t, 124, code)
	lines := strings.Split(string(out), "\n")
	require.Len(t, lines, 4, string(out))
	own, _ := os.Readlink("/proc/self/ns/net")
	assert.NotEqual(t, own, lines[0])
	assert.Equal(t, fmt.Sprint("localhost:80 port 80 user ", os.Getuid()), lines[1])

	// TestNetworksOfAnotherUser has a name server on the loopback.
	out, _, _, err = n.rt.Exec(t.Context(), st.Containers[0].ID, []string{"/bin/cat", "/etc/resolv.conf"})
	require.NoError(t, err)
	raw, err := os.ReadFile("/etc/resolv.conf")
	require.NoError(t, err)
	text, _ := pasta.ResolvConf(string(raw))
	assert.Equal(t, text, string(out))
}

// TestEndOfANetwork kills each process of a network. The sandbox is not ready any more, Watch tells its pod, and
// the other processes end.
func TestEndOfANetwork(t *testing.T) {
	n := newNetworked(t)
	for name, victim := range map[string]func(sandbox runtime.SandboxID, r record.Network) int{
		"pasta":  func(sandbox runtime.SandboxID, _ record.Network) int { return n.pasta(sandbox) },
		"inside": func(_ runtime.SandboxID, r record.Network) int { return r.Inside.PID },
		"keeper": func(_ runtime.SandboxID, r record.Network) int { return r.Keeper.PID },
	} {
		t.Run(name, func(t *testing.T) {
			pod := n.pod("")
			sandbox := n.start(pod, []string{serveEnv + "=80"})
			n.says(pod, 0, "serves 80")
			told := make(chan types.UID)
			ctx, cancel := context.WithCancel(t.Context())
			var watch sync.WaitGroup
			defer watch.Wait()
			defer cancel()
			watch.Go(func() {
				for uid, err := range n.rt.Watch(ctx) {
					assert.NoError(t, err)
					select {
					case told <- uid:
					case <-ctx.Done():
					}
				}
			})
			require.Equal(t, pod.UID, <-told)
			require.True(t, n.ready(pod))
			pid := victim(sandbox, n.network(sandbox))
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
			select {
			case uid := <-told:
				assert.Equal(t, pod.UID, uid)
			case <-time.After(time.Minute):
				require.Fail(t, "Watch says nothing")
			}
			assert.False(t, n.ready(pod))
			n.until("all processes of the network end", func() bool { return len(n.alive()) == 0 })
			_, err := n.rt.DialPod(t.Context(), pod.UID, "tcp", "192.0.2.77:80")
			assert.ErrorContains(t, err, "the network of the sandbox has ended")
			_, err = n.rt.CreateContainer(t.Context(), sandbox, n.spec(pod, 1))
			assert.ErrorContains(t, err, "the network of the sandbox has ended")
			cancel()
			require.NoError(t, n.rt.RemoveSandbox(t.Context(), sandbox))
		})
	}
}

// alive returns the keepers that are no zombies.
func (n *networkEnv) alive() (out []int) {
	for _, pid := range n.keepers() {
		if info, err := proc.Lookup(pid); err == nil && !info.Zombie {
			out = append(out, pid)
		}
	}
	return out
}

func (n *networkEnv) network(sandbox runtime.SandboxID) record.Network {
	n.Helper()
	uid, tail, _ := strings.Cut(string(sandbox), ":")
	dir, err := os.OpenRoot(filepath.Join(n.root, uid, "sandbox-"+tail))
	require.NoError(n, err)
	defer dir.Close()
	r, err := record.Read[record.Network](dir, record.NetworkFile)
	require.NoError(n, err)
	return r
}

// TestNetworkThatCannotStart has a host port that another program uses, and a program that is not pasta.
func TestNetworkThatCannotStart(t *testing.T) {
	n := newNetworked(t)
	used, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer used.Close()
	pod := n.pod("")
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: int32(used.Addr().(*net.TCPAddr).Port)}}
	_, err = n.rt.RunSandbox(t.Context(), runtime.SandboxSpec{UID: pod.UID, Name: pod.Name, Pod: pod})
	assert.ErrorContains(t, err, "pod network: pasta: ")
	assert.Empty(t, n.seen(pod).Sandboxes)

	opts := n.opts
	opts.Pasta = "/bin/false"
	n.rt = n.open(opts)
	_, err = n.rt.RunSandbox(t.Context(), runtime.SandboxSpec{UID: pod.UID, Name: pod.Name, Pod: pod})
	assert.ErrorContains(t, err, "pod network: pasta: ended at once")
	opts.Pasta = "/does/not/exist"
	n.rt = n.open(opts)
	_, err = n.rt.RunSandbox(t.Context(), runtime.SandboxSpec{UID: pod.UID, Name: pod.Name, Pod: pod})
	assert.ErrorContains(t, err, "/does/not/exist")
	assert.Empty(t, n.seen(pod).Sandboxes)
	assert.Empty(t, n.alive())
}

// TestLeftNetworks deletes the folder of a sandbox. Its network is a leftover.
func TestLeftNetworks(t *testing.T) {
	n := newNetworked(t)
	pod, other := n.pod(""), n.pod("")
	n.start(pod, []string{serveEnv + "=80"})
	n.start(other, []string{serveEnv + "=80"})
	require.NoError(t, os.RemoveAll(filepath.Join(n.root, string(pod.UID))))
	require.NoError(t, runtime.CollectLeftovers(t.Context(), n.rt))
	n.until("the network ends", func() bool { return len(n.alive()) == 3 })
	n.says(other, 0, "serves 80")
	assert.NotEqual(t, "none", answer(n.dial(other), "192.0.2.77:80"))
}

// TestKilledDuringTheStart stops a sandbox whose agent was killed before the network was recorded.
func TestKilledDuringTheStart(t *testing.T) {
	n := newNetworked(t)
	pod := n.pod("")
	sandbox := n.start(pod, []string{"WAIT=1"})
	uid, tail, _ := strings.Cut(string(sandbox), ":")
	require.NoError(t, os.Remove(filepath.Join(n.root, uid, "sandbox-"+tail, record.NetworkFile)))
	assert.False(t, n.ready(pod))
	require.NoError(t, n.rt.RemoveSandbox(t.Context(), sandbox))
	assert.Empty(t, n.alive())
}

// TestConformanceNetworked runs the suite with a network for each pod. As root the suite runs as another user,
// see TestNetworksOfAnotherUser.
func TestConformanceNetworked(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("for users without rights")
	}
	opts := newNetworked(t).opts
	opts.HostIPs = nil
	conformance(t, opts)
}

// TestNetworksOfAnotherUser runs the tests above as a user without rights, who may use /dev/net/tun.
func TestNetworksOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv(nobodyEnv) != "" {
		t.Skip("for root")
	}
	newNetworked(t)
	tun := openTun(t)
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(resolv, []byte("search example\nnameserver 127.0.0.53\n"), 0o644))
	asAnotherUser(t, "^(TestPodsHaveNetworks|TestExecIsInTheNetwork|TestEndOfANetwork|TestNetworkThatCannotStart|TestLeftNetworks|TestKilledDuringTheStart|TestConformanceNetworked)$",
		map[string]string{"/dev/net/tun": tun, "/etc/resolv.conf": resolv})
}

// BenchmarkNetwork makes and removes sandboxes on the host's network and with networks of their own.
func BenchmarkNetwork(b *testing.B) {
	path, err := exec.LookPath("pasta")
	if err != nil {
		b.Skip(err)
	}
	for name, opts := range map[string]process.Options{"host": {Confine: true}, "pasta": {Confine: true, Pasta: path}} {
		b.Run(name, func(b *testing.B) {
			e := newEnv(b)
			e.rt = e.open(opts)
			for b.Loop() {
				require.NoError(b, e.rt.RemoveSandbox(b.Context(), e.sandbox(e.pod("true"))))
			}
		})
	}
}

// BenchmarkDialPod connects with a server in a pod's network, and with one on the host.
func BenchmarkDialPod(b *testing.B) {
	n := newNetworked(b)
	pod := n.pod("")
	n.start(pod, []string{serveEnv + "=80"})
	n.says(pod, 0, "serves 80")
	host, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer host.Close()
	for name, dial := range map[string]func() (net.Conn, error){
		"host": func() (net.Conn, error) { return net.Dial("tcp", host.Addr().String()) },
		"pod":  func() (net.Conn, error) { return n.rt.DialPod(b.Context(), pod.UID, "tcp", "192.0.2.77:80") },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, err := dial()
				require.NoError(b, err)
				require.NoError(b, c.Close())
			}
		})
	}
}
