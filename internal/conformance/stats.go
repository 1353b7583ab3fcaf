// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/retry"
)

// The measurement of the usage of pods.
const (
	statsPods = 100
	// statsSettle is the time between the start of the last pod and the measurement.
	statsSettle = time.Minute
	// statsTime is the duration of each of the two measurements: without readers, and with readers.
	statsTime = 3 * time.Minute
	// statsGoal is the highest share of the kubelet's processor time that the agent should use for the
	// readers. The kubelet measures all the time, and not for readers alone.
	statsGoal = 0.2
)

// statsReaders are the readers of the second measurement: metrics-server, and a dashboard.
var statsReaders = []struct {
	path  string
	every time.Duration
}{
	{"metrics/resource", 15 * time.Second},
	{"stats/summary", 30 * time.Second},
	{"metrics/cadvisor", 30 * time.Second},
}

// statsDeployment creates the pods of the measurement. Its parameter is their number.
const statsDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: measured}
spec:
  replicas: %d
  selector: {matchLabels: {app: measured}}
  template:
    metadata: {labels: {app: measured}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: localhost/busybox:1
        command: [sleep, "100000"]
        resources: {requests: {cpu: 1m, memory: 4Mi}, limits: {memory: 64Mi}}
        volumeMounts: [{name: scratch, mountPath: /scratch}]
      volumes: [{name: scratch, emptyDir: {}}]
`

// errStats is returned if the agent fills fewer fields of the Summary API than the kubelet, or costs
// more than statsGoal.
var errStats = errors.New("the usage of pods is not as wanted, see above")

// statsFigures are the results of an agent.
type statsFigures struct {
	idle, read time.Duration // processor time without and with readers
	fields     map[string]bool
}

// runStats measures the costs of the measurements by each agent, and compares the fields of the
// Summary API.
func runStats(ctx context.Context, o options) error {
	all := map[string]statsFigures{}
	for _, agent := range o.agents() {
		figures, err := measureStats(ctx, o, agent)
		if err != nil {
			return fmt.Errorf("%s: %w", agent, err)
		}
		all[agent] = figures
		fmt.Printf("%s: %d pods, processor time of the agent in %s: %s without readers, %s with readers\n", agent, statsPods, statsTime,
			figures.idle.Round(10*time.Millisecond), figures.read.Round(10*time.Millisecond))
	}
	theirs, ours := all[kubelet], all[keelson]
	if len(all) < 2 {
		return nil
	}
	whole := theirs.read.Seconds()
	ratio := (ours.read - ours.idle).Seconds() / whole
	fmt.Printf("the readers cost the agent %.2f of the kubelet's processor time (goal: %.2f at most); all that the agent does with readers is %.2f of it\n",
		ratio, statsGoal, ours.read.Seconds()/whole)
	var err error
	if ratio > statsGoal {
		err = errStats
	}
	for _, field := range missingFields(theirs.fields, ours.fields) {
		fmt.Println("only the kubelet fills", field)
		err = errStats
	}
	return err
}

// measureStats measures an agent on a new cluster.
func measureStats(ctx context.Context, o options, name string) (figures statsFigures, err error) {
	c, err := startCluster(ctx, o, name, o.out, nil)
	if err != nil {
		return figures, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	core, err := c.server.Core()
	if err != nil {
		return figures, err
	}
	if err := c.apply(ctx, "deployment.yaml", fmt.Sprintf(statsDeployment, statsPods)); err != nil {
		return figures, err
	}
	if _, err := c.server.Kubectl(ctx, "rollout", "status", "deployment/measured", "--timeout=15m"); err != nil {
		return figures, err
	}
	if figures.idle, err = c.costOf(ctx, statsSettle, func(ctx context.Context) error { return retry.Sleep(ctx, statsTime) }); err != nil {
		return figures, err
	}
	if figures.read, err = c.costOf(ctx, 0, func(ctx context.Context) error { return readStats(ctx, core.RESTClient()) }); err != nil {
		return figures, err
	}
	raw, err := askNode(ctx, core.RESTClient(), "stats/summary")
	if err != nil {
		return figures, err
	}
	var summary any
	err = errors.Join(os.WriteFile(filepath.Join(o.out, "summary-"+name+".json"), raw, 0o644), json.Unmarshal(raw, &summary))
	figures.fields = map[string]bool{}
	addFields(figures.fields, "", summary)
	return figures, err
}

// costOf returns the processor time that the agent uses during work, which begins after a pause.
func (c *cluster) costOf(ctx context.Context, settle time.Duration, work func(context.Context) error) (time.Duration, error) {
	if err := retry.Sleep(ctx, settle); err != nil {
		return 0, err
	}
	before, err := processorTime(c.agent.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	if err := work(ctx); err != nil {
		return 0, err
	}
	after, err := processorTime(c.agent.cmd.Process.Pid)
	return after - before, err
}

// readStats sends the requests of all readers for statsTime.
func readStats(ctx context.Context, client rest.Interface) error {
	const tick = 15 * time.Second // divides all intervals
	for at := time.Duration(0); at < statsTime; at += tick {
		began := time.Now()
		for _, reader := range statsReaders {
			if at%reader.every != 0 {
				continue
			}
			if _, err := askNode(ctx, client, reader.path); err != nil {
				return err
			}
		}
		if err := retry.Sleep(ctx, tick-time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// askNode returns the answer of the agent to a GET request, through the API server.
func askNode(ctx context.Context, client rest.Interface, path string) ([]byte, error) {
	raw, err := client.Get().AbsPath("/api/v1/nodes", nodeName, "proxy", path).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return raw, nil
}

// processorTime returns the processor time of a process, as /proc says it, in steps of 10 ms.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // from the third on
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
