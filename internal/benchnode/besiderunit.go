// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// crowdCost has the measurements of a supervisor with a crowd.
type crowdCost struct {
	started time.Duration // until all programs run
	stopped time.Duration // until all programs have ended
	cleared time.Duration // until no holder and no record is left
	each    float64       // KiB of private memory of the holders, for each program
	early   int           // bytes of the supervisor's resident set, 5 s after the start
	memory  int           // bytes of its resident set when it has settled
	idle    float64       // processor time of the supervisor and the holders, in percent of a core
}

// besideRunit measures the agent on the process backend with many pods, without and with walls, beside
// runit with as many services, and prints ratios. The services of the agent's confined crowd's reference
// run in bubblewrap, with the same namespaces. Of a program that is not installed there are no ratios.
func besideRunit(ctx context.Context, dir string, o options) error {
	// The folder is the supervisors' user's, too.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	user := uint32(os.Geteuid())
	if user == 0 {
		user = unprivileged
	}
	fmt.Printf("machine: %s\n%d containers, user %d\n\n", machine(), o.besideRunit, user)
	fmt.Printf("%-46s %12s %12s %9s  %s\n", "(confined: runit with bubblewrap)", "runit", "keelson", "ratio", "goal")
	var open crowdCost // of runit
	for _, kind := range []struct {
		name, flag string
		needs      []string
		wrapped    bool
	}{
		{"open", "--confine=false", []string{"runsvdir"}, false},
		{"confined", "--confine", []string{"runsvdir", "bwrap"}, true},
	} {
		var floor crowdCost
		if err := installed(kind.needs); err != nil {
			fmt.Printf("%s: no ratios: %v\n", kind.name, err)
		} else if floor, err = measureCrowd(ctx, dir, o, &runit{dir: filepath.Join(dir, "services-"+kind.name), user: user, wrapped: kind.wrapped}); err != nil {
			return fmt.Errorf("%s, runit: %w", kind.name, err)
		}
		n := node{endpoint: "process", dir: filepath.Join(dir, kind.name), path: o.agent, flags: slices.Concat(o.flags, []string{kind.flag}), user: user}
		cost, err := measureCrowd(ctx, dir, o, &agent{n})
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		if kind.wrapped {
			row(kind.name+", all running, beside runit without walls", open.started, cost.started, "")
		} else {
			open = floor
		}
		row(kind.name+", all running", floor.started, cost.started, "≤ 1.2 ×")
		row(kind.name+", all ended", floor.stopped, cost.stopped, "≤ 3 s")
		row(kind.name+", nothing left", floor.cleared, cost.cleared, "")
		printRatio(kind.name+", private memory of each", "KiB", floor.each, cost.each, "≤ 100 KiB")
		printRatio(kind.name+", memory after 5 s", "MiB", float64(floor.early)/(1<<20), float64(cost.early)/(1<<20), "")
		printRatio(kind.name+", memory of the settled supervisor", "MiB", float64(floor.memory)/(1<<20), float64(cost.memory)/(1<<20), "≤ 40 MiB")
		printRatio(kind.name+", idle CPU, of one core", "%", floor.idle, cost.idle, "≤ 0.3 %")
	}
	return nil
}

// installed returns the error of the first program that is not installed.
func installed(programs []string) error {
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}
	return nil
}

// unprivileged is the user of the supervisors, if this program is root.
const unprivileged = 65534

// printRatio prints a measurement that is not a time.
func printRatio(name, unit string, floor, ours float64, goal string) {
	ratio, reference := "–", "–"
	if floor > 0 {
		ratio, reference = fmt.Sprintf("%.2f ×", ours/floor), fmt.Sprintf("%.2f %s", floor, unit)
	}
	fmt.Printf("%-46s %12s %12s %9s  %s\n", name, reference, fmt.Sprintf("%.2f %s", ours, unit), ratio, goal)
}

// measureCrowd starts and stops a crowd. What the supervisor does with a stopped crowd is not measured.
// Before, it waits like a settled crowd: for up to six minutes, ext4 without a journal passes over the
// inodes of deleted files, and the files of the crowd before would make each new file slow.
func measureCrowd(ctx context.Context, dir string, o options, s supervisor) (cost crowdCost, err error) {
	if err := pause(ctx, o.settle); err != nil {
		return cost, err
	}
	fifos, err := os.MkdirTemp(dir, "crowd")
	if err != nil {
		return cost, err
	}
	if err := os.Chmod(fifos, 0o777); err != nil {
		return cost, err
	}
	c, err := newCrowd(fifos, o.besideRunit)
	if err != nil {
		return cost, err
	}
	defer c.close()
	if err := s.prepare(c); err != nil {
		return cost, err
	}
	defer s.kill()
	began := time.Now()
	if err := errors.Join(s.start(ctx), c.awaitStart()); err != nil {
		return cost, err
	}
	cost.started = time.Since(began)
	if err := cost.measureIdle(ctx, o, s); err != nil {
		return cost, err
	}
	began = time.Now()
	if err := errors.Join(s.stop(), c.awaitEnd()); err != nil {
		return cost, err
	}
	cost.stopped = time.Since(began)
	if err := awaitNothing(s); err != nil {
		return cost, err
	}
	cost.cleared = time.Since(began)
	return cost, nil
}

// measureIdle measures memory and processor time while the crowd runs. The supervisor settles first: in the
// first minute the agent proves the pods' versions, and searches for leftovers of an agent before it.
func (cost *crowdCost) measureIdle(ctx context.Context, o options, s supervisor) error {
	time.Sleep(5 * time.Second)
	holders, err := s.holders()
	if err != nil {
		return err
	}
	kib := 0
	for _, pid := range holders {
		own, err := privateMemory(pid)
		if err != nil {
			return err
		}
		kib += own
	}
	cost.each = float64(kib) / float64(o.besideRunit)
	if cost.early, err = residentMemory(s.pid()); err != nil {
		return err
	}
	if err := pause(ctx, o.settle); err != nil {
		return err
	}
	if cost.memory, err = residentMemory(s.pid()); err != nil {
		return err
	}
	all := append(holders, s.pid())
	before := processorTime(all)
	if err := pause(ctx, o.idle); err != nil {
		return err
	}
	cost.idle = 100 * float64(processorTime(all)-before) / float64(o.idle)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// privateMemory returns the private memory of a process in KiB.
func privateMemory(pid int) (kib int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); name == "Private_Clean" || name == "Private_Dirty" {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				return 0, err
			}
			kib += n
		}
	}
	return kib, nil
}

// processorTime returns the processor time of processes, of all threads that live.
func processorTime(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is right
		for _, thread := range threads {
			text, _ := os.ReadFile(thread) // it may have ended
			first, _, _ := strings.Cut(string(text), " ")
			ns, _ := strconv.ParseInt(first, 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}
