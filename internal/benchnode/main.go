// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command benchnode measures the node agent on a private containerd, beside the
// floor: the same CRI calls made by a program that does nothing else. It prints
// one row per number, with the ratio of both, from one run. `make bench-node`
// runs it (root, Linux). What follows the flags is passed on to the agent.
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

func main() {
	agent := flag.String("agent", "bin/nodeagent", "the node agent to be measured")
	pods := flag.Int("pods", 50, "how many pods many are")
	rounds := flag.Int("rounds", 10, "how often what is quick is measured; the median counts")
	idle := flag.Duration("idle", time.Minute, "for how long idle CPU is measured")
	trace := flag.Bool("trace", false, "only start many pods, and say where the time goes")
	fill := flag.Int("fill", 0, "only start so many pods, and measure what the agent needs for them when idle; 250 is the goal")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, *agent, flag.Args(), *pods, *rounds, *fill, *idle, *trace)
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchnode:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, agentPath string, flags []string, pods, rounds, fill int, idle time.Duration, trace bool) (err error) {
	agentPath, err = filepath.Abs(agentPath)
	if err != nil {
		return err
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
	dir, err := os.MkdirTemp("", "benchnode")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	if fill > 0 {
		pods = fill
	}
	fmt.Printf("machine: %s\ncontainerd %s, %d pods, median of %d\n\n", machine(), containerd.Version, pods, rounds)
	if trace {
		return traceMany(ctx, containerd, dir, agentPath, flags, pods)
	}
	fmt.Printf("%-46s %12s %12s %9s  %s\n", "", "floor", "keelson", "ratio", "goal")
	floor := &floor{runtime: containerd.Runtime, dir: dir}
	node := &node{endpoint: containerd.Endpoint(), dir: dir, path: agentPath, flags: flags}
	defer node.kill()
	if err := node.start(ctx); err != nil {
		return err
	}
	if fill > 0 {
		return fillNode(ctx, node, fill, idle)
	}
	for _, m := range []measurement{
		onePod(rounds), restartOne(rounds), removeOne(rounds), manyPods(pods),
	} {
		if err := m.do(ctx, floor, node); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if err := idleNode(ctx, node, pods, idle, idleGoals{"≤ 0.3 %", "≤ 40 MiB"}); err != nil {
		return err
	}
	if err := restartAgent(ctx, node, rounds); err != nil {
		return err
	}
	return binarySize(agentPath)
}

// measurement is one row: the same thing done by the floor and by the node.
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

// machine says what a number is worth.
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
