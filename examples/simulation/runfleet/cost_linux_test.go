// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/apiservertest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
)

var (
	costNodes = flag.Int("nodes", 10, "the nodes of TestCost")
	costPods  = flag.Int("pods", 100, "the pods of TestCost")
)

// TestCost binds pods to a fleet with the real kube-scheduler. It prints the processor time and the
// memory of the program, and the time from the binding of a pod until it runs. $KEELSON_RUNFLEET is the
// program. $KEELSON_KWOK is a binary of kwok, to measure in the same way, with the stages of $KEELSON_KWOK_STAGES,
// the folder kustomize/stage of its source.
func TestCost(t *testing.T) {
	program := os.Getenv("KEELSON_RUNFLEET")
	if program == "" {
		t.Skip("KEELSON_RUNFLEET is not set: make bench-fleet")
	}
	t.Run("runfleet", func(t *testing.T) {
		measure(t, func(kubeconfig string) *exec.Cmd {
			return exec.Command(program, "-keep", "-kubeconfig", kubeconfig, "-nodes", strconv.Itoa(*costNodes))
		}, 0)
	})
	t.Run("kwok", func(t *testing.T) {
		kwok := os.Getenv("KEELSON_KWOK")
		if kwok == "" {
			t.Skip("KEELSON_KWOK is not set: make bench-fleet KWOK=1")
		}
		measure(t, func(kubeconfig string) *exec.Cmd {
			c := exec.Command(kwok, "--kubeconfig", kubeconfig, "--manage-all-nodes=true", "--node-lease-duration-seconds=40")
			for _, stage := range []string{"node/fast/node-*", "node/heartbeat-with-lease/node-*", "pod/fast/pod-*"} { // stage/fast/kustomization.yaml
				files, err := filepath.Glob(filepath.Join(os.Getenv("KEELSON_KWOK_STAGES"), stage+".yaml"))
				require.NoError(t, err)
				require.NotEmpty(t, files, "the stages of kwok: %s", stage)
				for _, file := range files {
					c.Args = append(c.Args, "--config", file)
				}
			}
			return c
		}, *costNodes)
	})
}

// measure starts a program, creates nodes for it, and pods, and prints what the program cost.
func measure(t *testing.T, command func(kubeconfig string) *exec.Cmd, nodes int) {
	server := apiservertest.Start(t, apiservertest.Options{Controllers: true})
	core, err := server.Core()
	require.NoError(t, err)
	for i := range nodes {
		_, err := server.CreateNode(t.Context(), fmt.Sprintf("kwok-%d", i))
		require.NoError(t, err)
	}
	c := command(server.Kubeconfig())
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	require.NoError(t, c.Start())
	defer func() {
		require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		_ = c.Wait() // kwok may end by the signal
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	waitUntil(t, "all nodes are ready", func() bool {
		list, err := core.Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		ready := 0
		for i := range list.Items {
			if node := &list.Items[i]; len(node.Spec.Taints) == 0 && slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
				return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
			}) {
				ready++
			}
		}
		return ready == *costNodes
	})
	registered := processOf(t, c.Process.Pid)
	seen := observe(t, server)
	waitUntil(t, "the service account", func() bool {
		_, err := core.ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	pods := make([]*v1.Pod, *costPods)
	for i := range pods {
		pods[i] = apiservertest.Pod("default", fmt.Sprintf("pod-%d", i), "")
		pods[i].Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
	}
	began := time.Now()
	_, err = server.CreatePods(t.Context(), pods...)
	require.NoError(t, err)
	created := time.Since(began)
	waitUntil(t, "all pods run", func() bool { return seen.count() == *costPods })
	ran := time.Since(began)
	spent := processOf(t, c.Process.Pid)
	waits, last := seen.waits()
	t.Logf("%d nodes and %d pods (created in %s, all Running after %s): %.1f s of processor time, of which %.1f s until all nodes were ready; %d MiB at most, %d MiB at the end (%d MiB when the nodes were ready)",
		*costNodes, *costPods, created.Round(time.Millisecond), ran.Round(time.Millisecond), spent.processor.Seconds(), registered.processor.Seconds(), spent.peak>>20, spent.resident>>20, registered.resident>>20)
	at := func(part float64) time.Duration {
		return waits[int(part*float64(len(waits)-1))].Round(time.Millisecond)
	}
	t.Logf("from the binding of a pod until it is Running: median %s, 99th percentile %s, longest %s; of the pod bound last %s",
		at(0.5), at(0.99), at(1), last.Round(time.Millisecond))
}

// waitUntil waits for an event that is certain to come.
func waitUntil(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); !happened(); time.Sleep(100 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "wait for: %s", what)
	}
}

// process is the cost of a running process.
type process struct {
	processor      time.Duration
	resident, peak int64 // bytes
}

func processOf(t *testing.T, pid int) (p process) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		require.NoError(t, err)
		p.processor += time.Duration(ticks) * 10 * time.Millisecond
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range bytes.Lines(status) {
		for name, value := range map[string]*int64{"VmHWM": &p.peak, "VmRSS": &p.resident} {
			if _, err := fmt.Sscanf(string(line), name+": %d kB", value); err == nil {
				*value <<= 10
			}
		}
	}
	return p
}

// times has the instants at which an observer saw each pod bound and Running.
type times struct {
	mu             sync.Mutex
	bound, running map[types.UID]time.Time
}

// observe watches all bound pods until the end of the test.
func observe(t *testing.T, server *apiservertest.Server) *times {
	s := &times{bound: map[types.UID]time.Time{}, running: map[types.UID]time.Time{}}
	core, err := server.Core()
	require.NoError(t, err)
	source, err := podwatch.New(podwatch.Config{Pods: core.Pods(""), Nodes: func(types.NodeName) bool { return true }})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, s) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-done)
	})
	return s
}

// Submit implements podconfig.Sink.
func (s *times) Submit(_ context.Context, c podconfig.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, pod := range c.Pods() {
		if _, seen := s.bound[pod.UID]; !seen {
			s.bound[pod.UID] = now
		}
		if _, seen := s.running[pod.UID]; !seen && pod.Status.Phase == v1.PodRunning {
			s.running[pod.UID] = now
		}
	}
	return nil
}

func (s *times) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// waits returns the sorted times from the bindings, and that of the pod bound last.
func (s *times) waits() (all []time.Duration, last time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var latest time.Time
	for uid, bound := range s.bound {
		wait := s.running[uid].Sub(bound)
		if all = append(all, wait); bound.After(latest) {
			latest, last = bound, wait
		}
	}
	slices.Sort(all)
	return all, last
}
