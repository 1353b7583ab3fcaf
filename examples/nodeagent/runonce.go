// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
)

// once holds the flags of --runonce: the program runs the pods and ends when all are up or have
// ended.
type once struct {
	on      bool
	timeout time.Duration
	refused *atomic.Int32 // manifests and pods refused before they reached the agent
}

func (o *once) flags(set *pflag.FlagSet) {
	set.BoolVar(&o.on, "runonce", false, "run the pods of PATH and --manifest-url once, print the result of each pod, and end when each pod has ended or, with restartPolicy Always, is ready; such pods run on; exit code 1 if a pod failed")
	set.DurationVar(&o.timeout, "runonce-timeout", 1023*time.Second, "longest time of --runonce")
}

// complete refuses flags that contradict --runonce, and sets the defaults for --runonce.
func (o *once) complete(f *flags, set *pflag.FlagSet) error {
	switch {
	case !o.on && set.Changed("runonce-timeout"):
		return errors.New("--runonce-timeout without --runonce")
	case !o.on:
		return nil
	case f.kubeconfig != "":
		return errors.New("--runonce is for PATH and --manifest-url: an API server's pods are not run once, leave out --kubeconfig")
	case f.port != 0 && set.Changed("read-only-port"):
		return errors.New("--runonce serves nothing: leave out --read-only-port")
	case o.timeout <= 0:
		return fmt.Errorf("--runonce-timeout %s: want more than 0", o.timeout)
	}
	f.port, o.refused = 0, new(atomic.Int32)
	if !set.Changed("keep-pods") {
		f.keepPods = !f.shutdown.asked()
	}
	return nil
}

// attend disables the live table and counts refused manifests and pods. The count uses log entries,
// because sources report refusals only in the log.
func (o *once) attend(out *output) {
	if !o.on {
		return
	}
	out.live = false
	out.log = out.log.WithOptions(zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == manifestNotUsed || e.Message == "pod not accepted from its source" {
			o.refused.Add(1)
		}
		return nil
	}))
}

// run runs the pods and prints their results.
func (o *once) run(ctx context.Context, agent *node.Agent) error {
	results, err := agent.RunOnce(ctx, node.RunOnceOptions{Timeout: o.timeout})
	if writeErr := writeResults(os.Stdout, results); writeErr != nil {
		return writeErr
	}
	failed := 0
	for _, r := range results {
		if r.Err != nil {
			failed++
		}
	}
	switch refused := int(o.refused.Load()); {
	case failed > 0:
		return fmt.Errorf("--runonce: %d of %d pods did not come up", failed, len(results))
	case err != nil:
		return fmt.Errorf("--runonce: %w", err)
	case refused > 0:
		return fmt.Errorf("--runonce: %d manifests were not used, see the log", refused)
	}
	return nil
}

// writeResults prints one line per pod.
func writeResults(to io.Writer, results []node.Result) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "POD\tRESULT\tPHASE\tREADY\tRESTARTS\tMESSAGE")
	for _, r := range results {
		cells := row(r.Pod, nil, time.Now()) // name, phase, ready, restarts, age, message
		result, text := outcome(r), cells[5]
		if r.Err != nil && text == "" {
			text = oneLine(r.Err.Error())
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join([]string{cells[0], result, cells[1], cells[2], cells[3], text}, "\t"), "\t"))
	}
	return w.Flush()
}

// outcome returns the RESULT column of a pod.
func outcome(r node.Result) string {
	switch {
	case r.Err == nil && r.Pod.Status.Phase == v1.PodSucceeded:
		return "succeeded"
	case r.Err == nil:
		return "running"
	case errors.Is(r.Err, node.ErrPodRejected):
		return "rejected"
	case errors.Is(r.Err, node.ErrPodFailed):
		return "failed"
	case errors.Is(r.Err, node.ErrPodNotRunning):
		return "gave up"
	}
	return "stopped"
}
