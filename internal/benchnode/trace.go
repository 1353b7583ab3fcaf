// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/internal/criproxy"
)

// traceMany starts many pods, first with the floor and then with the agent, through a proxy that
// records every call. It prints the duration of each kind of call and the processor time of each
// program.
func traceMany(ctx context.Context, c *containerdtest.Instance, dir, agent string, flags []string, pods int) (err error) {
	proxy, err := criproxy.New(filepath.Join(dir, "cri.sock"), c.Socket)
	if err != nil {
		return err
	}
	defer proxy.Close()
	conn, err := grpc.NewClient(proxy.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer conn.Close()
	n := &node{endpoint: proxy.Endpoint(), dir: dir, path: agent, flags: flags, user: uint32(os.Geteuid())}
	defer n.kill()
	if err := n.start(ctx); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // let the agent start
	for _, k := range atOnce {
		t := &tracing{proxy: proxy, containerd: c.PID(), agent: n.agent.Process.Pid}
		f := &floor{runtime: cri.NewRuntimeServiceClient(conn), dir: dir, traced: t.end}
		t.begin()
		took, err := f.many(ctx, pods, k)
		if err != nil {
			return err
		}
		t.print(fmt.Sprintf("floor, %d at a time: %s", k, short(took)))
	}
	t := &tracing{proxy: proxy, containerd: c.PID(), agent: n.agent.Process.Pid}
	t.begin()
	took, err := n.many(ctx, pods)
	if err != nil {
		return err
	}
	t.end()
	t.print("agent: " + short(took))
	return nil
}

// tracing is one trace.
type tracing struct {
	proxy             *criproxy.Proxy
	containerd, agent int // process IDs
	at, ended         time.Time
	before, after     usage
	calls             []criproxy.Call
}

// usage is processor time used so far.
type usage struct{ agent, containerd, children, busy time.Duration }

func (t *tracing) usage() (u usage) {
	u.agent, _, _ = cpuOf(t.agent)
	u.containerd, u.children, _ = cpuOf(t.containerd)
	u.busy, _ = busy()
	return u
}

func (t *tracing) begin() { t.at, t.before = time.Now(), t.usage() }

func (t *tracing) end() {
	t.ended, t.after = time.Now(), t.usage()
	t.calls = t.proxy.Since(t.at)
}

func (t *tracing) print(title string) {
	fmt.Printf("%s\n  processor time: agent %s, containerd %s, its children %s, the whole machine %s\n", title,
		short(t.after.agent-t.before.agent), short(t.after.containerd-t.before.containerd),
		short(t.after.children-t.before.children), short(t.after.busy-t.before.busy))
	byMethod := make(map[string][]time.Duration)
	for _, c := range t.calls {
		if end := c.Ended; !end.IsZero() {
			byMethod[c.Method] = append(byMethod[c.Method], end.Sub(c.Began))
		}
	}
	total := func(m string) (sum time.Duration) {
		for _, d := range byMethod[m] {
			sum += d
		}
		return sum
	}
	methods := slices.SortedFunc(maps.Keys(byMethod), func(a, b string) int { return cmp.Compare(total(b), total(a)) })
	fmt.Printf("  %-24s %6s %10s %10s %10s\n", "call", "times", "mean", "median", "sum")
	for _, m := range methods {
		n := len(byMethod[m])
		fmt.Printf("  %-24s %6d %10s %10s %10s\n", m, n, short(total(m)/time.Duration(n)), short(median(byMethod[m])), short(total(m)))
	}
	fmt.Printf("  starting calls under way: none for %s, one for %s\n\n", short(t.underWay(0)), short(t.underWay(1)))
}

// underWay returns how long exactly n starting calls were in progress.
func (t *tracing) underWay(n int) (sum time.Duration) {
	type edge struct {
		at   time.Time
		step int
	}
	edges := []edge{{t.at, 0}, {t.ended, 0}}
	for _, c := range t.calls {
		switch c.Method {
		case "RunPodSandbox", "CreateContainer", "StartContainer":
			end := c.Ended
			if end.IsZero() || end.After(t.ended) {
				end = t.ended
			}
			edges = append(edges, edge{c.Began, 1}, edge{end, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(b.step, a.step)) })
	now, last := 0, t.at
	for _, e := range edges {
		if now == n {
			sum += e.at.Sub(last)
		}
		now, last = now+e.step, e.at
	}
	return sum
}

// tick is the kernel's unit of processor time: USER_HZ is 100.
const tick = 10 * time.Millisecond

// cpuOf returns the processor time of a process, and of its children already waited for.
func cpuOf(pid int) (own, children time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	sum := func(from int) (d time.Duration) {
		for _, field := range fields[from : from+2] {
			n, _ := strconv.Atoi(field)
			d += time.Duration(n) * tick
		}
		return d
	}
	return sum(11), sum(13), nil
}

// busy returns the busy time of all processors.
func busy() (sum time.Duration, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line)[1:] {
		if n, _ := strconv.Atoi(field); i != 3 && i != 4 && i < 8 { // idle, iowait, guests
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}
