// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var containerd Shared

func TestMain(m *testing.M) { os.Exit(containerd.Main(m)) }

// pod is a sandbox with one container, made by the bare CRI calls.
type pod struct {
	instance           *Instance
	sandbox, container string
	config             *runtimeapi.PodSandboxConfig
}

func sandboxConfig(name, logs string, network runtimeapi.NamespaceMode) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Uid: name, Namespace: "default"},
		LogDirectory: logs,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: network},
			},
		},
	}
}

// startPod makes the three calls that start a pod. Missing fields of the container are filled in.
func startPod(ctx context.Context, i *Instance, config *runtimeapi.PodSandboxConfig, container *runtimeapi.ContainerConfig) (*pod, error) {
	p := &pod{instance: i, config: config}
	sandbox, err := i.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		return nil, err
	}
	p.sandbox = sandbox.GetPodSandboxId()
	return p, p.startContainer(ctx, container)
}

func (p *pod) startContainer(ctx context.Context, config *runtimeapi.ContainerConfig) error {
	if config.Metadata == nil {
		config.Metadata = &runtimeapi.ContainerMetadata{Name: "main"}
	}
	if config.Image == nil {
		config.Image = &runtimeapi.ImageSpec{Image: BusyboxImage}
	}
	config.LogPath = config.Metadata.Name + ".log"
	config.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: p.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
	}}
	container, err := p.instance.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.sandbox, SandboxConfig: p.config, Config: config,
	})
	if err != nil {
		return err
	}
	p.container = container.GetContainerId()
	_, err = p.instance.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: p.container})
	return err
}

// command returns a container that runs busybox.
func command(args ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{Command: args}
}

func (p *pod) remove(ctx context.Context) error {
	if _, err := p.instance.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
		return err
	}
	_, err := p.instance.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
	return err
}

func (p *pod) exec(t *testing.T, command ...string) string {
	t.Helper()
	out, err := p.instance.Runtime.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: p.container, Cmd: command, Timeout: 10})
	require.NoError(t, err)
	require.Zero(t, out.GetExitCode(), "%s", out.GetStderr())
	return strings.TrimSpace(string(out.GetStdout()))
}

func (p *pod) state(t *testing.T) runtimeapi.ContainerState {
	t.Helper()
	status, err := p.instance.Runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: p.container})
	require.NoError(t, err)
	return status.GetStatus().GetState()
}

// TestPod runs a pod through its life with each kind of network.
func TestPod(t *testing.T) {
	instance := containerd.Get(t)
	for _, network := range []runtimeapi.NamespaceMode{runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_POD} {
		t.Run(network.String(), func(t *testing.T) {
			logs := t.TempDir()
			p, err := startPod(t.Context(), instance, sandboxConfig("life-"+strings.ToLower(network.String()), logs, network),
				command("sh", "-c", "echo hello; exec sleep 1000"))
			require.NoError(t, err)

			host, err := os.Readlink("/proc/self/ns/net")
			require.NoError(t, err)
			inside := p.exec(t, "readlink", "/proc/self/ns/net")
			status, err := instance.Runtime.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.sandbox})
			require.NoError(t, err)
			ip := status.GetStatus().GetNetwork().GetIp()
			if network == runtimeapi.NamespaceMode_NODE {
				assert.Equal(t, host, inside)
				assert.Empty(t, ip)
			} else {
				assert.NotEqual(t, host, inside)
				assert.Contains(t, p.exec(t, "ip", "addr"), ip)
				p.exec(t, "ping", "-c", "1", "-W", "5", "127.0.0.1")
				subnet, err := netip.ParsePrefix(instance.Subnet)
				require.NoError(t, err)
				address, err := netip.ParseAddr(ip)
				require.NoError(t, err)
				assert.True(t, subnet.Contains(address), "%s in %s", ip, instance.Subnet)
				p.exec(t, "ping", "-c", "1", "-W", "5", subnet.Addr().Next().String())
			}
			text, err := os.ReadFile(filepath.Join(logs, "main.log"))
			require.NoError(t, err)
			assert.Contains(t, string(text), "stdout F hello")

			_, err = instance.Runtime.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: p.container})
			require.NoError(t, err)
			assert.Equal(t, runtimeapi.ContainerState_CONTAINER_EXITED, p.state(t))
			_, err = instance.Runtime.RemoveContainer(t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: p.container})
			require.NoError(t, err)
			require.NoError(t, p.remove(t.Context()))
		})
	}
}

// TestRestart checks that pods survive a crash of containerd and are managed again afterwards.
func TestRestart(t *testing.T) {
	instance := containerd.Get(t)
	p, err := startPod(t.Context(), instance, sandboxConfig("restart", t.TempDir(), runtimeapi.NamespaceMode_POD), command("sleep", "1000"))
	require.NoError(t, err)
	before := instance.PIDs()
	assert.Len(t, before.Containers, 2, "the pause and the container")
	assert.Len(t, before.Shims, 1)
	assert.Equal(t, []int{instance.PID()}, before.Containerd)

	require.NoError(t, instance.Kill())
	assert.Zero(t, instance.PID())
	down := instance.PIDs()
	assert.Empty(t, down.Containerd)
	assert.Equal(t, before.Shims, down.Shims)
	assert.Equal(t, before.Containers, down.Containers)

	start := time.Now()
	require.NoError(t, instance.Restart(t.Context()))
	t.Logf("restart of containerd %s: %v", instance.Version, time.Since(start))
	assert.Equal(t, runtimeapi.ContainerState_CONTAINER_RUNNING, p.state(t))
	assert.Equal(t, before.Containers, instance.PIDs().Containers)
	require.NoError(t, p.remove(t.Context()))
}

// TestEvents checks that HasEvents is true if the runtime offers events.
func TestEvents(t *testing.T) {
	instance := containerd.Get(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := instance.Runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	require.NoError(t, err)
	_, configErr := instance.Runtime.RuntimeConfig(t.Context(), &runtimeapi.RuntimeConfigRequest{})
	if !instance.HasEvents {
		_, err = stream.Recv()
		assert.ErrorContains(t, err, "Unimplemented")
		assert.ErrorContains(t, configErr, "Unimplemented")
		return
	}
	require.NoError(t, configErr)
	p, err := startPod(t.Context(), instance, sandboxConfig("events", t.TempDir(), runtimeapi.NamespaceMode_NODE), command("sleep", "1000"))
	require.NoError(t, err)
	for {
		event, err := stream.Recv()
		require.NoError(t, err)
		if event.GetContainerId() == p.container && event.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT {
			break
		}
	}
	require.NoError(t, p.remove(t.Context()))
}

func TestMirror(t *testing.T) {
	i := containerd.Get(t)
	r := StartRegistry(t, i, Image{Name: "team/app:1", Files: map[string]string{"/app": "a layer of its own"}})
	require.NoError(t, i.Mirror("registry.invalid", r.Host))
	_, err := i.Images.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "registry.invalid/team/app:1"}})
	require.NoError(t, err)
	require.Len(t, r.Layers(), 1)
}

// TestImport checks that the configuration of an image decides its process.
func TestImport(t *testing.T) {
	instance := containerd.Get(t)
	image := Image{
		Name: "localhost/greeter:7", Entrypoint: []string{"sh", "-c", "cat /srv/greeting; echo $WHO; id -u; pwd"},
		Env: []string{"WHO=world"}, User: "65534", WorkingDir: "/tmp", Files: map[string]string{"/srv/greeting": "hello\n"},
	}
	require.NoError(t, instance.Import(t.Context(), image))
	status, err := instance.Images.ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image.Name}})
	require.NoError(t, err)
	assert.Equal(t, int64(65534), status.GetImage().GetUid().GetValue())
	out, err := instance.Ctr(t.Context(), "images", "list", "-q")
	require.NoError(t, err)
	assert.Contains(t, string(out), image.Name)
	_, err = instance.Ctr(t.Context(), "images", "nonsense", "--x")
	assert.Error(t, err)

	logs := t.TempDir()
	p, err := startPod(t.Context(), instance, sandboxConfig("import", logs, runtimeapi.NamespaceMode_NODE),
		&runtimeapi.ContainerConfig{Image: &runtimeapi.ImageSpec{Image: image.Name}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, p.remove(t.Context())) }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, retry(ctx, func() error {
		if state := p.state(t); state != runtimeapi.ContainerState_CONTAINER_EXITED {
			return fmt.Errorf("the container is %s", state)
		}
		return nil
	}))
	text, err := os.ReadFile(filepath.Join(logs, "main.log"))
	require.NoError(t, err)
	var said []string
	for line := range strings.Lines(string(text)) {
		_, word, _ := strings.Cut(strings.TrimSpace(line), " stdout F ")
		said = append(said, word)
	}
	assert.Equal(t, []string{"hello", "world", "65534", "/tmp"}, said)
}
