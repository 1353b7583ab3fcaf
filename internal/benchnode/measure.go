// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// onePod measures the start of a pod: from the manifest (for the floor: from the decision) to the
// process.
func onePod(rounds int) measurement {
	m := measurement{name: "manifest written → process runs", goal: "≤ 1.2 ×"}
	m.do = func(ctx context.Context, f *floor, n *node) error {
		var floors, ours []time.Duration
		for i := range rounds {
			name := fmt.Sprint("one-", i)
			began := time.Now()
			p, err := f.start(ctx, name)
			if err != nil {
				return err
			}
			if _, err = waitMarks(ctx, f.marks(), name, 1); err != nil {
				return err
			}
			floors = append(floors, time.Since(began))
			if err := f.remove(ctx, p); err != nil {
				return err
			}
			began = time.Now()
			if err := n.write(name); err != nil {
				return err
			}
			pids, err := waitMarks(ctx, n.marks(), name, 1)
			if err != nil {
				return err
			}
			ours = append(ours, time.Since(began))
			if err := n.remove(ctx, name, pids[0]); err != nil {
				return err
			}
			time.Sleep(200 * time.Millisecond) // the agent clears up
		}
		row(m.name, median(floors), median(ours), m.goal)
		return nil
	}
	return m
}

// restartOne measures a restart: from the kill of the process to the next process.
func restartOne(rounds int) measurement {
	m := measurement{name: "process killed → runs again", goal: "≤ 1.5 ×"}
	m.do = func(ctx context.Context, f *floor, n *node) error {
		var floors, ours []time.Duration
		for i := range rounds {
			name := fmt.Sprint("restart-", i)
			p, err := f.start(ctx, name)
			if err != nil {
				return err
			}
			pids, err := waitMarks(ctx, f.marks(), name, 1)
			if err != nil {
				return err
			}
			began := time.Now()
			_ = syscall.Kill(pids[0], syscall.SIGKILL)
			if err := f.restart(ctx, p, name, 1); err != nil {
				return err
			}
			if _, err = waitMarks(ctx, f.marks(), name, 2); err != nil {
				return err
			}
			floors = append(floors, time.Since(began))
			if err := f.remove(ctx, p); err != nil {
				return err
			}

			if err := n.write(name); err != nil {
				return err
			}
			if pids, err = waitMarks(ctx, n.marks(), name, 1); err != nil {
				return err
			}
			time.Sleep(300 * time.Millisecond) // let the pod settle
			began = time.Now()
			_ = syscall.Kill(pids[0], syscall.SIGKILL)
			if pids, err = waitMarks(ctx, n.marks(), name, 2); err != nil {
				return err
			}
			ours = append(ours, time.Since(began))
			if err := n.remove(ctx, name, pids[1]); err != nil {
				return err
			}
		}
		row(m.name, median(floors), median(ours), m.goal)
		return nil
	}
	return m
}

// removeOne measures the removal of a pod whose process ignores SIGTERM, with a grace period of one
// second.
func removeOne(rounds int) measurement {
	m := measurement{name: "manifest removed → process gone (grace 1 s)", goal: "≤ 1.2 s"}
	m.do = func(ctx context.Context, _ *floor, n *node) error {
		var ours []time.Duration
		for i := range min(rounds, 5) {
			name := fmt.Sprint("remove-", i)
			if err := n.writeDeaf(name); err != nil {
				return err
			}
			pids, err := waitMarks(ctx, n.marks(), name, 1)
			if err != nil {
				return err
			}
			time.Sleep(300 * time.Millisecond)
			began := time.Now()
			if err := n.remove(ctx, name, pids[0]); err != nil {
				return err
			}
			ours = append(ours, time.Since(began))
		}
		row(m.name, time.Second, median(ours), m.goal)
		return nil
	}
	return m
}

// updateOne measures the time of an update in which no version of the pod runs: from the end of the
// old process to the start of the new process.
func updateOne(rounds int) measurement {
	m := measurement{name: "update: no process runs", goal: "≤ 1 × stop and start"}
	m.do = func(ctx context.Context, f *floor, n *node) error {
		down := func(marks, name string, change func() error) (time.Duration, error) {
			pids, err := waitMarks(ctx, marks, name, 1)
			if err != nil {
				return 0, err
			}
			changed := make(chan error, 1)
			go func() { changed <- change() }()
			if err := waitGone(ctx, pids[0]); err != nil {
				return 0, err
			}
			began := time.Now()
			if _, err = waitMarks(ctx, marks, name, 2); err != nil {
				return 0, err
			}
			return time.Since(began), <-changed
		}
		var floors, ours []time.Duration
		for i := range min(rounds, 5) {
			name := fmt.Sprint("update-", i)
			p, err := f.start(ctx, name)
			if err != nil {
				return err
			}
			took, err := down(f.marks(), name, func() error {
				if err := f.remove(ctx, p); err != nil {
					return err
				}
				p, err = f.start(ctx, name)
				return err
			})
			if err != nil {
				return err
			}
			floors = append(floors, took)
			if err := f.remove(ctx, p); err != nil {
				return err
			}

			if err := n.writeVersion(name, 1); err != nil {
				return err
			}
			if took, err = down(n.marks(), name, func() error {
				time.Sleep(3 * time.Second) // the first version passes its gate
				return n.writeVersion(name, 2)
			}); err != nil {
				return err
			}
			ours = append(ours, took)
			pids, err := waitMarks(ctx, n.marks(), name, 2)
			if err != nil {
				return err
			}
			if err := n.remove(ctx, name, pids[1]); err != nil {
				return err
			}
		}
		row(m.name, median(floors), median(ours), m.goal)
		return nil
	}
	return m
}

// atOnce are the concurrency levels of the floor. The floor of a round is the fastest level.
var atOnce = []int{2, 4, 8}

// manyPods measures bursts: all manifests at once, until the last process runs. Floor and agent
// take turns, so that both run under the same conditions. Each round has its own ratio, because a
// single round is not representative.
func manyPods(pods, rounds int) measurement {
	m := measurement{name: fmt.Sprintf("%d pods at once, all running", pods), goal: "≤ 1.1 × in every round"}
	m.do = func(ctx context.Context, f *floor, n *node) error {
		var floors, ours []time.Duration
		var ratios []float64
		for round := range rounds {
			best, each := time.Duration(0), ""
			for _, k := range atOnce {
				took, err := f.many(ctx, pods, k)
				if err != nil {
					return err
				}
				each += fmt.Sprintf("  %d: %s", k, short(took))
				if best == 0 || took < best {
					best = took
				}
			}
			if round > 0 {
				if err := n.removeMany(ctx, pods); err != nil {
					return err
				}
			}
			took, err := n.many(ctx, pods)
			if err != nil {
				return err
			}
			floors, ours = append(floors, best), append(ours, took)
			ratios = append(ratios, float64(took)/float64(best))
			fmt.Printf("  round %d: %s, %.2f × the best floor, of so many at a time:%s\n", round+1, short(took), ratios[round], each)
		}
		row(m.name, median(floors), median(ours), m.goal)
		fmt.Printf("  ratios of %d rounds: %.2f–%.2f\n", rounds, slices.Min(ratios), slices.Max(ratios))
		return nil
	}
	return m
}

// removeMany removes the pods of many and returns when their processes have ended and the agent
// has had time to remove their sandboxes.
func (n *node) removeMany(ctx context.Context, pods int) error {
	for i := range pods {
		if err := os.Remove(n.file(fmt.Sprint("many-", i))); err != nil {
			return err
		}
	}
	for i := range pods {
		name := fmt.Sprint("many-", i)
		pids, err := waitMarks(ctx, n.marks(), name, 1)
		if err != nil {
			return err
		}
		if err := waitGone(ctx, pids[len(pids)-1]); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(n.marks(), name)); err != nil {
			return err
		}
	}
	time.Sleep(3 * time.Second)
	return nil
}

// many writes the manifests of that many pods and returns when all their processes run.
func (n *node) many(ctx context.Context, pods int) (time.Duration, error) {
	began := time.Now()
	for i := range pods {
		if err := n.write(fmt.Sprint("many-", i)); err != nil {
			return 0, err
		}
	}
	for i := range pods {
		if _, err := waitMarks(ctx, n.marks(), fmt.Sprint("many-", i), 1); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// idleGoals are the goals of the agent with idle pods.
type idleGoals struct{ cpu, memory string }

// idleNode measures the agent with the idle pods of manyPods.
func idleNode(ctx context.Context, n *node, pods int, d time.Duration, goals idleGoals) error {
	time.Sleep(5 * time.Second)
	before, err := n.cpu()
	if err != nil {
		return err
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := n.cpu()
	if err != nil {
		return err
	}
	memory, err := n.memory()
	if err != nil {
		return err
	}
	fmt.Printf("%-46s %12s %11.2f%% %9s  %s\n", fmt.Sprintf("idle CPU, %d pods, of one core", pods), "0", 100*float64(after-before)/float64(d), "", goals.cpu)
	fmt.Printf("%-46s %12s %8.1f MiB %9s  %s\n", fmt.Sprintf("memory, %d pods", pods), "–", float64(memory)/(1<<20), "", goals.memory)
	return nil
}

// restartAgent kills the agent with many pods running, and starts the agent again. The measured
// time runs from the start to the process of a pod that was added meanwhile. restartAgent fails if
// a process is lost or doubled.
func restartAgent(ctx context.Context, n *node, rounds int) error {
	var ours []time.Duration
	for i := range min(rounds, 5) {
		n.kill()
		name := fmt.Sprint("after-", i)
		if err := n.write(name); err != nil {
			return err
		}
		began := time.Now()
		if err := n.start(ctx); err != nil {
			return err
		}
		if _, err := waitMarks(ctx, n.marks(), name, 1); err != nil {
			return err
		}
		ours = append(ours, time.Since(began))
		time.Sleep(300 * time.Millisecond)
	}
	row("agent killed, started → next pod runs", 0, median(ours), "≤ 0.5 s")
	return n.check()
}

// check fails unless every pod's script ran once and still runs.
func (n *node) check() error {
	marks, err := os.ReadDir(n.marks())
	if err != nil {
		return err
	}
	for _, m := range marks {
		if _, err := os.Stat(n.file(m.Name())); err != nil {
			continue // the pod was removed
		}
		pids, err := waitMarks(context.Background(), n.marks(), m.Name(), 1)
		if err != nil {
			return err
		}
		if len(pids) != 1 || syscall.Kill(pids[0], 0) != nil {
			return fmt.Errorf("pod %s was started %d times, as %v", m.Name(), len(pids), pids)
		}
	}
	fmt.Println("  no container lost, none started twice")
	return nil
}

func binarySize(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	fmt.Printf("%-46s %12s %9.1f MB %9s  %s\n", "binary", "–", float64(info.Size())/1e6, "", "≤ 40 MB")
	return nil
}
