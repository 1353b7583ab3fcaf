// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
)

// serviceManager receives the messages of a service.
type serviceManager struct {
	conn *net.UnixConn
	mu   sync.Mutex
	all  []string
}

func newServiceManager(t *testing.T, address string) *serviceManager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	require.NoError(t, err)
	m := &serviceManager{conn: conn}
	var wg sync.WaitGroup
	wg.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.all = append(m.all, string(buffer[:n]))
			m.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		conn.Close()
		wg.Wait()
	})
	return m
}

// heard counts the messages with a line.
func (m *serviceManager) heard(line string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range m.all {
		for _, l := range strings.Split(message, "\n") {
			if l == line {
				n++
			}
		}
	}
	return n
}

func (m *serviceManager) first() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[0]
}

func TestTheServiceManagerIsTold(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	m := newServiceManager(t, socket)
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", strconv.Itoa(int((300 * time.Millisecond).Microseconds())))
	t.Setenv("WATCHDOG_PID", "")
	s := newStation(t, backends["process"])
	s.write("p.yaml", `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    image: host
    command: ["/bin/sh", "-c", "env > `+s.dir+`/env; exec sleep 100000"]
`)
	s.start("--shutdown-grace-period", "20s", "--shutdown-grace-period-critical-pods", "5s")
	s.eventually("it is ready", func() bool { return m.heard("READY=1") == 1 })
	require.Contains(t, m.first(), "READY=1", "and says so first")
	s.eventually("it gives signs of life", func() bool { return m.heard("WATCHDOG=1") >= 3 })
	s.eventually("it says what runs", func() bool { return m.heard("STATUS=1 pods, 1 running") == 1 })
	require.Zero(t, m.heard("STOPPING=1"))
	s.interrupt()
	s.eventually("it has said that it ends", func() bool { return m.heard("STOPPING=1") == 1 })
	require.Equal(t, 1, m.heard("EXTEND_TIMEOUT_USEC=30000000"), "and how long that may take")
	environment, err := os.ReadFile(filepath.Join(s.dir, "env"))
	require.NoError(t, err)
	require.NotContains(t, string(environment), "NOTIFY_SOCKET", "containers are not to speak for the agent")
}

func TestASocketWithoutAFileIsUsed(t *testing.T) {
	address := "@keelson-test-" + strconv.Itoa(os.Getpid())
	m := newServiceManager(t, address)
	t.Setenv("NOTIFY_SOCKET", address)
	t.Setenv("WATCHDOG_USEC", "1000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()+1))
	n := newNotifier(zap.NewNop())
	require.Zero(t, n.every, "the watchdog is for another process")
	require.Empty(t, os.Getenv("NOTIFY_SOCKET"))
	n.stopping(0)
	require.Eventually(t, func() bool { return m.heard("STOPPING=1") == 1 }, patience, time.Millisecond)
	require.Equal(t, "STOPPING=1\nSTATUS=stopping", m.first())
}

func TestWithoutAServiceManagerNobodyIsTold(t *testing.T) {
	for _, socket := range []string{"", "vsock:2:1234", "relative"} {
		t.Setenv("NOTIFY_SOCKET", socket)
		n := newNotifier(zap.NewNop())
		require.Nil(t, n)
		n.run(t.Context(), &turning{})
		n.stopping(time.Second)
	}
}

// turning is an agent with a loop that turns until it is stuck.
type turning struct {
	mu    sync.Mutex
	stuck chan struct{}
}

func (a *turning) hang() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stuck = make(chan struct{})
}

func (a *turning) Alive(ctx context.Context) error {
	a.mu.Lock()
	stuck := a.stuck
	a.mu.Unlock()
	if stuck == nil {
		return nil
	}
	select {
	case <-stuck:
		return nil
	case <-ctx.Done():
		return errors.New("stuck")
	}
}

func (a *turning) Pods() []*v1.Pod { return nil }

// A hanging loop must stop the watchdog messages.
func TestALoopThatHangsGivesNoSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		ready := 0
		n := &notifier{every: 20 * time.Second, log: zap.NewNop(), send: func(state string) error {
			ready += strings.Count(state, "READY=1")
			if strings.Contains(state, "WATCHDOG=1") {
				at = append(at, time.Now())
			}
			return nil
		}}
		agent := &turning{}
		agent.hang() // it has not begun yet
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			n.run(ctx, agent)
			close(done)
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, ready, "not ready before it runs")
		close(agent.stuck)
		agent.mu.Lock()
		agent.stuck = nil
		agent.mu.Unlock()
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		require.Equal(t, 1, ready)
		require.Len(t, at, 30)
		agent.hang()
		hung := time.Now()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, at, 30)
		require.Less(t, hung.Sub(at[29]), 20*time.Second)
		cancel()
		<-done
	})
}
