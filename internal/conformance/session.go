// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stepTimeout limits a step of the session.
const stepTimeout = 5 * time.Minute

// errSession is returned if the recordings of the two agents differ.
var errSession = errors.New("the sessions differ, see above")

// runSession records the session with each agent, and prints the differences. For each agent a file
// has all lines, and another the lines that must be equal.
func runSession(ctx context.Context, o options) error {
	script, differences := sessionScript, sessionKnown
	if o.eviction {
		script, differences = evictionScript, evictionKnown
	}
	steps, err := parseSession(script)
	if err != nil {
		return err
	}
	known, err := parseKnown(differences)
	if err != nil {
		return err
	}
	var files []string
	for _, agent := range o.agents() {
		r, err := recordAgent(ctx, o, agent, steps)
		file := filepath.Join(o.out, "session-"+agent+".txt")
		all := filepath.Join(o.out, "recorded-"+agent+".txt")
		if err := errors.Join(err, os.WriteFile(file, []byte(r.text(known)), 0o644), os.WriteFile(all, []byte(r.text(nil)), 0o644)); err != nil {
			return fmt.Errorf("%s: %w", agent, err)
		}
		files = append(files, file)
	}
	if len(files) < 2 {
		fmt.Println("recorded in", files[0])
		return nil
	}
	out, err := exec.CommandContext(ctx, "diff", "--unified=2", "--show-function-line=^"+stepMark, files[0], files[1]).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		fmt.Printf("%s", out)
		return errSession
	}
	if err != nil {
		return fmt.Errorf("diff: %w: %s", err, out)
	}
	fmt.Printf("%d steps are equal\n", len(steps))
	return nil
}

// recordAgent runs the session on a new cluster with the named agent.
func recordAgent(ctx context.Context, o options, name string, steps []sessionStep) (_ recording, err error) {
	began := time.Now()
	c, err := startCluster(ctx, o, name, o.out, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, c.stop())
		fmt.Printf("%s: session of %s; the agent: %s\n", name, time.Since(began).Round(time.Second), c.agent.usage())
	}()
	if o.session {
		if err := c.startMetricsServer(ctx, filepath.Join(o.out, "metrics-server-"+name+".log")); err != nil {
			return nil, err
		}
	}
	bin, err := c.userFolder(o.programs)
	if err != nil {
		return nil, err
	}
	var r recording
	for _, step := range steps {
		output, err := runStep(ctx, c, bin, step)
		if err != nil {
			return r, fmt.Errorf("step %s: %w", step.name, err)
		}
		r = append(r, recorded{step.name, normalise(output)})
	}
	return r, nil
}

// userFolder makes a folder for the user of the session, with kubectl in it.
func (c *cluster) userFolder(programs string) (string, error) {
	dir := filepath.Join(c.dir, "user")
	return dir, errors.Join(os.Mkdir(dir, 0o700), os.Symlink(filepath.Join(programs, "kubectl"), filepath.Join(dir, "kubectl")))
}

// runStep returns the output of a step, with its exit code. A step that ends with an error is no
// error.
func runStep(ctx context.Context, c *cluster, dir string, step sessionStep) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-c", withExitCodes+step.script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &output, &output
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir(), "KUBECONFIG=" + c.server.Kubeconfig(), "TERM=dumb"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		err = nil // a step ends like its last command
	}
	if err != nil {
		return "", fmt.Errorf("%w\n%s", errors.Join(err, context.Cause(ctx)), output.String())
	}
	return output.String(), nil
}

// withExitCodes makes kubectl a function of bash that prints an exit code that is not 0.
const withExitCodes = `
kubectl() { command kubectl "$@"; local code=$?; [ $code = 0 ] || echo "exit code $code" >&2; return $code; }
`
