// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics && !noapiserver

package main

import (
	"context"
	"crypto/tls"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
)

// requests returns the callbacks that count the requests of --port. Names, labels and buckets are the
// kubelet's. Unlike the kubelet's, port forwarding counts as long-running.
func (m *metrics) requests() nodeserver.Observer {
	labels := []string{"method", "path", "server_type", "long_running"}
	total := counters(m.registry, "kubelet_http_requests_total", "Requests on --port.", labels...)
	durations := histograms(m.registry, "kubelet_http_requests_duration_seconds", "Duration of requests on --port.", prometheus.DefBuckets, labels...)
	inflight := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubelet_http_inflight_requests", Help: "Requests on --port that are not answered yet.",
	}, labels)
	sockets := counters(m.registry, "kubelet_websocket_streaming_requests_total", "Streams over a WebSocket on --port.", "subresource")
	m.registry.MustRegister(inflight)
	values := func(r nodeserver.Request) []string {
		return []string{r.Method, r.Path, "readwrite", strconv.FormatBool(r.LongRunning)}
	}
	streams := map[string]string{"exec": "exec", "attach": "attach", "portForward": "portforward"}
	return nodeserver.Observer{
		Began: func(r nodeserver.Request) {
			total.WithLabelValues(values(r)...).Inc()
			inflight.WithLabelValues(values(r)...).Inc()
			if stream := streams[r.Path]; r.WebSocket && stream != "" {
				sockets.WithLabelValues(stream).Inc()
			}
		},
		Ended: func(r nodeserver.Request, took time.Duration) {
			inflight.WithLabelValues(values(r)...).Dec()
			durations.WithLabelValues(values(r)...).Observe(took.Seconds())
		},
	}
}

// claimPatience limits the measurement of the volumes of claims for a scrape.
const claimPatience = 2 * time.Second

// claimMetrics are the metrics of the volumes of PersistentVolumeClaims. It implements
// prometheus.Collector.
type claimMetrics struct {
	usage                                                     *nodestats.Collector
	capacity, available, used, inodes, inodesFree, inodesUsed *prometheus.Desc
}

// watchClaims registers the metrics of the volumes of claims.
func (m *metrics) watchClaims(usage *nodestats.Collector) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("kubelet_volume_stats_"+name, help, []string{"namespace", "persistentvolumeclaim"}, nil)
	}
	m.registry.MustRegister(&claimMetrics{
		usage:      usage,
		capacity:   desc("capacity_bytes", "Capacity in bytes of the volume"),
		available:  desc("available_bytes", "Number of available bytes in the volume"),
		used:       desc("used_bytes", "Number of used bytes in the volume"),
		inodes:     desc("inodes", "Maximum number of inodes in the volume"),
		inodesFree: desc("inodes_free", "Number of free inodes in the volume"),
		inodesUsed: desc("inodes_used", "Number of used inodes in the volume"),
	})
}

// Describe implements prometheus.Collector.
func (c *claimMetrics) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.capacity, c.available, c.used, c.inodes, c.inodesFree, c.inodesUsed} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *claimMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), claimPatience)
	defer cancel()
	for _, v := range c.usage.ClaimVolumes(ctx) {
		for desc, value := range map[*prometheus.Desc]*uint64{
			c.capacity: v.Usage.CapacityBytes, c.available: v.Usage.AvailableBytes, c.used: v.Usage.UsedBytes,
			c.inodes: v.Usage.Inodes, c.inodesFree: v.Usage.InodesFree, c.inodesUsed: v.Usage.InodesUsed,
		} {
			if value != nil {
				out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(*value), v.Claim.Namespace, v.Claim.Name)
			}
		}
	}
}

// watchIdentity registers the metrics of the node's certificates. Certificates that the agent does
// not replace have none. own may be nil.
func (m *metrics) watchIdentity(own *identity) {
	if own == nil {
		return
	}
	failures := func(name, help string, of *issues) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(of.failed.Load()) }))
	}
	ttl := func(name, help string, current func() *tls.Certificate) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return secondsLeft(current()) }))
	}
	if own.client.IsManaged() {
		ttl("kubelet_certificate_manager_client_ttl_seconds", "Seconds until the client certificate expires; +Inf without one.", own.client.Certificate)
		failures("kubelet_certificate_manager_client_expiration_renew_errors", "Failed requests for a client certificate.", &own.clientIssues)
	}
	if own.serving == nil {
		return
	}
	ttl("kubelet_certificate_manager_server_ttl_seconds", "Seconds until the serving certificate expires; +Inf without one.", own.serving.Current)
	failures("kubelet_server_expiration_renew_errors", "Failed requests for a serving certificate.", &own.servingIssues)
	const hour, day = 3600, 24 * 3600
	ages := histograms(m.registry, "kubelet_certificate_manager_server_rotation_seconds", "Age of serving certificates that were replaced.",
		[]float64{60, hour, 4 * hour, day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day, 4 * 360 * day}).WithLabelValues()
	own.servingIssues.replaced = func(age time.Duration) { ages.Observe(age.Seconds()) }
}

// secondsLeft returns the time until a certificate expires, +Inf for nil.
func secondsLeft(c *tls.Certificate) float64 {
	if c == nil {
		return math.Inf(1)
	}
	return time.Until(c.Leaf.NotAfter).Seconds()
}
