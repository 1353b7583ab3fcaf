// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics

package main

import (
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podworkers"
)

// podMetrics computes gauges of pods at each scrape.
type podMetrics struct {
	m       *metrics
	agent   *node.Agent
	desired *prometheus.Desc
	active  *prometheus.Desc
	mirrors *prometheus.Desc
	working *prometheus.Desc
	running *prometheus.Desc
	states  *prometheus.Desc
}

// watch registers the gauges of the agent's pods.
func (m *metrics) watch(agent *node.Agent) {
	m.registry.MustRegister(&podMetrics{
		m: m, agent: agent,
		desired: prometheus.NewDesc("kubelet_desired_pods", "Pods that this node is to run.", []string{"static"}, nil),
		active:  prometheus.NewDesc("kubelet_active_pods", "Pods that this node is to run and that are neither over nor refused.", []string{"static"}, nil),
		mirrors: prometheus.NewDesc("kubelet_mirror_pods", "Mirror pods on the API server.", nil, nil),
		working: prometheus.NewDesc("kubelet_working_pods", "Pods that the pod workers handle, by state, configuration and kind.", []string{"lifecycle", "config", "static"}, nil),
		running: prometheus.NewDesc("kubelet_running_pods", "Pods with a running container.", nil, nil),
		states:  prometheus.NewDesc("kubelet_running_containers", "Containers, by state.", []string{"container_state"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (p *podMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.desired, p.active, p.mirrors, p.working, p.running, p.states} {
		to <- d
	}
}

// Collect implements prometheus.Collector. The registry does not call it concurrently.
func (p *podMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	census := p.agent.Census()
	for _, static := range []bool{true, false} {
		gauge(p.desired, census.Desired[static], staticLabel(static))
		gauge(p.active, census.Active[static], staticLabel(static))
	}
	gauge(p.mirrors, census.Mirrors)
	for _, state := range []podworkers.State{podworkers.StateSync, podworkers.StateTerminating, podworkers.StateTerminated} {
		for _, config := range []node.Config{node.ConfigDesired, node.ConfigOrphan} {
			for _, static := range []bool{true, false} {
				gauge(p.working, census.Working[node.Work{State: state, Config: config, Static: static}], state.String(), config.String(), staticLabel(static))
			}
		}
	}
	strangers := node.Work{State: podworkers.StateTerminating, Config: node.ConfigRuntimeOnly}
	gauge(p.working, census.Working[strangers], strangers.State.String(), strangers.Config.String(), "unknown")
	p.collectRunning(gauge)
}

func (p *podMetrics) collectRunning(gauge func(d *prometheus.Desc, n int, labels ...string)) {
	states, running, now := map[string]int{}, 0, make(map[types.UID]bool)
	for _, pod := range p.agent.Pods() {
		now[pod.UID] = true
		before := states["running"]
		for s := range podfacts.AllStatuses(&pod.Status) {
			states[state(s)]++
		}
		if states["running"] > before {
			running++
		}
	}
	p.m.forget(func(uid types.UID) bool { return !now[uid] })
	gauge(p.running, running)
	for _, name := range []string{"created", "running", "exited"} {
		gauge(p.states, states[name], name)
	}
}

// staticLabel is the kubelet's.
func staticLabel(static bool) string {
	if static {
		return "true"
	}
	return ""
}

func state(c *v1.ContainerStatus) string {
	switch {
	case c.State.Running != nil:
		return "running"
	case c.State.Terminated != nil:
		return "exited"
	default:
		return "created"
	}
}
