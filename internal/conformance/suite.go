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
	"strconv"
	"syscall"
	"time"
)

// suiteTimeout limits one run of the specs.
const suiteTimeout = 90 * time.Minute

// runAgent runs the selected specs on a new cluster with the named agent, and the failed specs once
// more. Logs and reports are written to a folder below o.out.
func runAgent(ctx context.Context, o options, name string, number int, s selection) (_ outcomes, err error) {
	dir := filepath.Join(o.out, fmt.Sprintf("%s-%d", name, number))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	began := time.Now()
	c, err := newCluster(ctx, o, name, dir)
	if err != nil {
		return nil, err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, c.stop())
		}
	}()
	first, err := runSuite(ctx, o, c, filepath.Join(dir, "first"), s.focus, s.skip, o.procs)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	if failed := first.names(failed); len(failed) > 0 {
		fmt.Printf("%s, run %d: %d of %d specs failed, and run again\n", name, number, len(failed), len(first))
		again, err := runSuite(ctx, o, c, filepath.Join(dir, "again"), anyOf(failed), nil, 1)
		if err != nil {
			return nil, err
		}
		first.rerun(again)
	}
	stopped = true
	err = c.stop()
	fmt.Printf("%s, run %d: %s in %s; the agent: %s\n", name, number, first.count(), took.Round(time.Second), c.agent.usage())
	return first, err
}

// runSuite runs the specs that match focus and none of skip. Specs that fail are no error.
func runSuite(ctx context.Context, o options, c *cluster, dir, focus string, skip []string, procs int) (outcomes, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	cmd := suiteCommand(ctx, o, c, dir, focus, skip, procs)
	if o.node {
		agents, err := newService(c.agent, filepath.Join(c.dir, "bin"))
		if err != nil {
			return nil, err
		}
		defer func() { _ = agents.stop() }()
		cmd = nodeCommand(ctx, o, c, dir, focus, skip)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	select {
	case <-c.agent.exited:
		return nil, fmt.Errorf("the agent has ended during the specs\n%s", c.agent.logTail())
	default:
	}
	found, reportErr := readReport(filepath.Join(dir, "junit_01.xml"))
	if reportErr != nil {
		return nil, fmt.Errorf("%w (%w): see %s", reportErr, err, log.Name())
	}
	return found, nil
}

// suiteCommand returns the command that runs upstream's suite for clusters.
func suiteCommand(ctx context.Context, o options, c *cluster, dir, focus string, skip []string, procs int) *exec.Cmd {
	args := []string{"--procs=" + strconv.Itoa(procs), "--no-color", "--keep-going", "--timeout=" + suiteTimeout.String(), "--focus=" + focus}
	for _, pattern := range skip {
		args = append(args, "--skip="+pattern)
	}
	args = append(args, filepath.Join(o.programs, "e2e.test"), "--", "--kubeconfig="+c.server.Kubeconfig(), "--provider=skeleton",
		"--kubectl-path="+filepath.Join(o.programs, "kubectl"), "--report-dir="+dir, "--disable-log-dump", "--node-schedulable-timeout=2m")
	cmd := exec.CommandContext(ctx, filepath.Join(o.programs, "ginkgo"), args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "TMPDIR=" + os.TempDir()}
	return cmd
}

// hold starts a cluster and waits until ctx ends, for a look with kubectl.
func hold(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "keelson-hold-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := newCluster(ctx, o, o.only, dir)
	if err != nil {
		return err
	}
	fmt.Printf("nsenter --target=%d --net --mount kubectl --kubeconfig=%s …; the agent's log is %s\n", os.Getpid(), c.server.Kubeconfig(), c.agent.log)
	select {
	case <-ctx.Done():
	case <-c.agent.exited:
		fmt.Printf("the agent has ended\n%s", c.agent.logTail())
	}
	return c.stop()
}
