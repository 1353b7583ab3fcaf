// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// hookLog is a HookRunner that only records its calls.
type hookLog struct {
	mu    sync.Mutex
	calls []runtime.HookCall
	err   error
}

func (h *hookLog) RunHook(_ context.Context, call runtime.HookCall) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
	return h.err
}

// hooked gives a container handlers; nil = none.
func hooked(name string, postStart, preStop *v1.LifecycleHandler) podOption {
	return func(p *v1.Pod) {
		c := container(name)
		c.Lifecycle = &v1.Lifecycle{PostStart: postStart, PreStop: preStop}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

func execHandler(cmd ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: cmd}}
}

func sleepHandler(seconds int64) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}}
}

func getHandler(path string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromInt32(80)}}
}

func TestHooksLearnThePodsAddresses(t *testing.T) {
	inBubble(t, func(n *node) {
		log := &hookLog{}
		n.restart(runtime.Options{Hooks: log})
		pod := newPod(hooked("c", getHandler("/up"), getHandler("/down")))
		status := n.mustSync(pod)
		ips := status.Sandboxes[0].IPs
		require.NotEmpty(n, ips)
		require.Equal(n, ips, log.calls[0].PodIPs, "postStart")

		changed := pod.DeepCopy()
		changed.Spec.Containers[0].Image = "img:2"
		n.mustSync(changed)
		require.Len(n, log.calls, 3)
		require.Equal(n, ips, log.calls[1].PodIPs, "preStop of a restart")

		_, _ = n.kill(changed)
		require.Equal(n, ips, log.calls[3].PodIPs, "preStop of the pod's end")
		for i, call := range log.calls {
			want := changed.Spec.Containers[0].Lifecycle.PostStart
			if i%2 == 1 {
				want = changed.Spec.Containers[0].Lifecycle.PreStop
			}
			require.Equal(n, want, call.Handler)
		}
	})
}

// The addresses are those of the container's sandbox, not those of a later sandbox.
func TestHooksLearnTheAddressesOfTheirSandbox(t *testing.T) {
	inBubble(t, func(n *node) {
		log := &hookLog{err: errors.New("no")}
		n.restart(runtime.Options{Hooks: log})
		pod := newPod(hooked("c", getHandler("/up"), getHandler("/down")))
		r := n.sync(pod)
		require.ErrorIs(n, r.Err(), runtime.ErrPostStartHook)
		ips := r.Status.Sandboxes[0].IPs
		require.Len(n, log.calls, 2, "preStop after a postStart that failed")
		require.Equal(n, ips, log.calls[1].PodIPs)

		r.Status.Containers[0].State = runtime.StateRunning
		r.Status.Sandboxes = append([]runtime.SandboxStatus{{ID: "newer", IPs: []string{"192.0.2.9"}}}, r.Status.Sandboxes...)
		n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod, Status: r.Status})
		require.Len(n, log.calls, 3)
		require.Equal(n, ips, log.calls[2].PodIPs)
	})
}

// A pod without a spec still gets its preStop hook, with the data to reach the container.
func TestHooksOfAPodWithoutASpec(t *testing.T) {
	inBubble(t, func(n *node) {
		log := &hookLog{}
		n.restart(runtime.Options{Hooks: log})
		pod := newPod(hooked("c", nil, getHandler("/down")))
		pod.Spec.HostNetwork = true
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		ips := n.mustSync(pod).Sandboxes[0].IPs
		r := n.manager.KillPod(n.Context(), runtime.KillRequest{UID: pod.UID})
		require.NoError(n, r.Err())
		require.Len(n, log.calls, 1)
		require.Equal(n, ips, log.calls[0].PodIPs)
		require.True(n, log.calls[0].Pod.Spec.HostNetwork)
		require.Equal(n, pod.Spec.Containers[0].Ports, log.calls[0].Container.Ports)
	})
}

// After a failed postStart hook the container is killed, including preStop.
func TestAFailedPostStartHookKillsTheContainer(t *testing.T) {
	inBubble(t, func(n *node) {
		var ran []string
		n.world.Script(fake.Target{}, fake.Script{Exec: func(_ context.Context, _ runtime.ContainerSpec, cmd []string) fake.ExecResult {
			ran = append(ran, cmd[0])
			return fake.ExecResult{Stdout: []byte("password"), ExitCode: len(ran) % 2}
		}})
		r := n.sync(newPod(hooked("c", execHandler("up"), execHandler("down"))))
		require.ErrorIs(n, r.Err(), runtime.ErrPostStartHook)
		require.ErrorContains(n, r.Err(), "exec hook: exit code 1")
		require.NotContains(n, r.Err().Error(), "password")
		require.Equal(n, []string{"up", "down"}, ran)
		require.Equal(n, runtime.StateExited, r.Status.Latest("c").State)
		require.Contains(n, n.events.lines, "Warning FailedPostStartHook spec.containers{c}")
		require.Equal(n, "Normal Killing spec.containers{c}", n.events.lines[len(n.events.lines)-1])
		require.Equal(n, "FailedPostStartHook", n.events.messages[len(n.events.lines)-1])
	})
}

// The preStop hook of every container of a pod is run, also while that of a
// sibling hangs, and the pod ends in its time (kubernetes#53727). The kubelet
// leaves a goroutine behind for each such hook; the bubble would not end here.
func TestUpstream53727AHangingPreStopHoldsUpNobody(t *testing.T) {
	inBubble(t, func(n *node) {
		ran := map[string]time.Duration{}
		began := time.Now()
		n.world.Script(fake.Target{}, fake.Script{TermAfter: fake.Never, Exec: func(ctx context.Context, spec runtime.ContainerSpec, _ []string) fake.ExecResult {
			if spec.Name == "stuck" {
				<-ctx.Done()
				return fake.ExecResult{Err: ctx.Err()}
			}
			ran[spec.Name] = time.Since(began)
			return fake.ExecResult{}
		}})
		pod := newPod(grace(20), hooked("stuck", nil, execHandler("hang")), hooked("quick", nil, execHandler("bye")), hooked("plain", nil, nil))
		n.mustSync(pod)
		began = time.Now()
		r, took := n.kill(pod)
		require.NoError(n, r.Err())
		require.Equal(n, 21*time.Second, took, "the grace period, and a second for the container with the hook")
		require.Equal(n, map[string]time.Duration{"quick": 0}, ran)
		require.Empty(n, r.Status.Running())
		require.Equal(n, 20*time.Second, r.Status.Latest("quick").FinishedAt.Sub(began))
		require.Contains(n, n.events.lines, "Warning FailedPreStopHook spec.containers{stuck}")
		require.NotContains(n, n.events.lines, "Warning FailedPreStopHook spec.containers{quick}")
	})
}

// pipes is a network in memory with a single server. Virtual time advances in it.
type pipes struct{ handler http.Handler }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		req, err := http.ReadRequest(bufio.NewReader(server))
		if err != nil {
			return
		}
		p.handler.ServeHTTP(&pipeWriter{server}, req)
	}()
	return client, nil
}

// pipeWriter answers with a header alone.
type pipeWriter struct{ conn net.Conn }

func (w *pipeWriter) Header() http.Header         { return http.Header{} }
func (w *pipeWriter) Write(b []byte) (int, error) { return w.conn.Write(b) }
func (w *pipeWriter) WriteHeader(int) {
	_, _ = w.conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"))
}

func TestHTTPHookIsBoundedByItsContextOnly(t *testing.T) {
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  time.Duration
		err   error
	}{
		"no answer": {
			serve: func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) },
			want:  30 * time.Minute, err: context.DeadlineExceeded,
		},
		"a slow answer": {
			serve: func(w http.ResponseWriter, _ *http.Request) { time.Sleep(20 * time.Minute); w.WriteHeader(200) },
			want:  20 * time.Minute,
		},
		"a body that hangs": {
			serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); time.Sleep(time.Hour) },
			want:  5 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hooks := runtime.NewHooksDialing(pipes{c.serve}.dial)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
				defer cancel()
				pod := newPod()
				began := time.Now()
				err := hooks.RunHook(ctx, runtime.HookCall{
					Pod: pod, Container: &pod.Spec.Containers[0], PodIPs: []string{"10.0.0.1"}, Handler: getHandler("/"),
				})
				require.Equal(t, c.want, time.Since(began))
				time.Sleep(2 * time.Hour) // until the server is done, too
				if c.err == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, c.err)
				}
			})
		})
	}
}

// A preStop request that is never answered takes the grace period and leaves
// nothing behind.
func TestAnUnansweredPreStopRequestTakesTheGracePeriod(t *testing.T) {
	inBubble(t, func(n *node) {
		n.world.Script(fake.Target{}, fake.Script{TermAfter: fake.Never})
		gone := make(chan struct{})
		serve := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn := w.(*pipeWriter).conn
			_, _ = conn.Read(make([]byte, 1)) // until the other side hangs up
			close(gone)
		})
		n.restart(runtime.Options{Hooks: runtime.NewHooksDialing(pipes{serve}.dial)})
		pod := newPod(grace(7), hooked("c", nil, getHandler("/down")))
		n.mustSync(pod)
		r, took := n.kill(pod)
		require.NoError(n, r.Err())
		require.Equal(n, 8*time.Second, took)
		<-gone
		require.Contains(n, n.events.lines, "Warning FailedPreStopHook spec.containers{c}")
	})
}

func TestSleepHookEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the pod was deleted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(why) })
		began := time.Now()
		err := runtime.NewHooks(nil, nil).RunHook(ctx, runtime.HookCall{Handler: sleepHandler(60)})
		require.ErrorIs(t, err, why)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestHooksRefuseWhatTheyCannotDo(t *testing.T) {
	hooks := runtime.NewHooks(nil, nil) // and a runtime without Exec
	for name, c := range map[string]struct {
		handler     *v1.LifecycleHandler
		unsupported bool
		want        string
	}{
		"none":      {nil, false, "hook without a handler"},
		"empty":     {&v1.LifecycleHandler{}, false, "hook without a handler"},
		"exec":      {execHandler("true"), true, "exec hook: "},
		"tcpSocket": {&v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{}}, true, "tcpSocket hook: "},
	} {
		err := hooks.RunHook(t.Context(), runtime.HookCall{Pod: newPod(), Container: new(container("c")), Handler: c.handler})
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, c.unsupported, errors.Is(err, runtime.ErrUnsupported), name)
	}
}

// A container that an edited pod does not have any more is stopped with its own hook.
func TestARemovedContainerHasItsOwnHook(t *testing.T) {
	inBubble(t, func(n *node) {
		log := &hookLog{}
		n.restart(runtime.Options{Hooks: log})
		pod := newPod(hooked("kept", nil, execHandler("flush", "kept")), hooked("gone", nil, execHandler("flush", "gone")))
		n.mustSync(pod)
		edited := pod.DeepCopy()
		edited.Spec.Containers = edited.Spec.Containers[:1]
		n.mustSync(edited)
		require.Len(n, log.calls, 1)
		require.Equal(n, execHandler("flush", "gone"), log.calls[0].Handler)
		require.Equal(n, "gone", log.calls[0].Container.Name)
	})
}
