// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command benchnode measures the node agent on a private containerd, and compares it with the
// floor: the same CRI calls made by a minimal program. With -beside-runit it measures the agent on the
// process backend, and compares it with runit. It prints one row per measurement, with the
// ratio of both values from the same run. Arguments after the flags are passed on to the agent.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// options are the flags of the command.
type options struct {
	agent  string
	flags  []string // more flags for the agent
	pods   int
	rounds int
	bursts int
	only   string
	idle   time.Duration
	settle time.Duration
	trace  bool
	fill   int

	besideRunit int
}

func main() {
	var o options
	flag.StringVar(&o.agent, "agent", "bin/nodeagent", "the node agent to be measured")
	flag.IntVar(&o.pods, "pods", 50, "the number of pods of a burst")
	flag.IntVar(&o.rounds, "rounds", 10, "how often a short measurement is repeated; its median counts")
	flag.IntVar(&o.bursts, "bursts", 5, "how often a burst is repeated; its ratios are printed as a range")
	flag.StringVar(&o.only, "only", "", "measure only the rows with this text in their names, such as 'at once'")
	flag.DurationVar(&o.idle, "idle", time.Minute, "for how long idle CPU is measured")
	flag.DurationVar(&o.settle, "settle", 75*time.Second, "how long a crowd beside runit's runs before memory and idle CPU are measured")
	flag.BoolVar(&o.trace, "trace", false, "only start a burst, and say where the time goes")
	flag.IntVar(&o.fill, "fill", 0, "only start so many pods, and measure what the agent needs for them when idle; 250 is the goal")
	flag.IntVar(&o.besideRunit, "beside-runit", 0, "only measure the process backend with so many containers, beside as many services of runit, at most 1000")
	flag.Parse()
	o.flags = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "benchnode:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.agent, err = filepath.Abs(o.agent); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "benchnode")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.besideRunit > 0 {
		return besideRunit(ctx, dir, o)
	}
	containerd, err := containerdtest.New(ctx, containerdtest.Options{})
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := containerd.Stop(); err == nil {
			err = stopErr
		}
	}()

	if o.fill > 0 {
		o.pods = o.fill
	}
	fmt.Printf("machine: %s\ncontainerd %s, %d pods, median of %d\n\n", machine(), containerd.Version, o.pods, o.rounds)
	if o.trace {
		return traceMany(ctx, containerd, dir, o.agent, o.flags, o.pods)
	}
	fmt.Printf("%-46s %12s %12s %9s  %s\n", "", "floor", "keelson", "ratio", "goal")
	floor := &floor{runtime: containerd.Runtime, dir: dir}
	node := &node{endpoint: containerd.Endpoint(), dir: dir, path: o.agent, flags: o.flags, user: uint32(os.Geteuid())}
	defer node.kill()
	if err := node.start(ctx); err != nil {
		return err
	}
	if o.fill > 0 {
		return fillNode(ctx, node, o.fill, o.idle)
	}
	for _, m := range []measurement{
		onePod(o.rounds), restartOne(o.rounds), removeOne(o.rounds), updateOne(o.rounds), manyPods(o.pods, o.bursts),
	} {
		if !strings.Contains(m.name, o.only) {
			continue
		}
		if err := m.do(ctx, floor, node); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if o.only != "" {
		return nil
	}
	if err := idleNode(ctx, node, o.pods, o.idle, idleGoals{"≤ 0.3 %", "≤ 40 MiB"}); err != nil {
		return err
	}
	if err := restartAgent(ctx, node, o.rounds); err != nil {
		return err
	}
	return binarySize(o.agent)
}

// measurement is one row: the same work done by the floor and by the node.
type measurement struct {
	name, goal string
	do         func(ctx context.Context, f *floor, n *node) error
}

func row(name string, floor, ours time.Duration, goal string) {
	ratio := "–"
	reference := "–"
	if floor > 0 {
		ratio = fmt.Sprintf("%.2f ×", float64(ours)/float64(floor))
		reference = short(floor)
	}
	fmt.Printf("%-46s %12s %12s %9s  %s\n", name, reference, short(ours), ratio, goal)
}

func short(d time.Duration) string {
	if d > 10*time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond / 10).String()
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// machine describes the machine of the measurement.
func machine() string {
	model := "unknown CPU"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%s, load %s, %s", model, first, time.Now().Format(time.DateOnly))
}
