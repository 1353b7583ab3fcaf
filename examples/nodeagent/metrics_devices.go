// SPDX-License-Identifier: Apache-2.0

//go:build !nodevices && !nometrics

package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// deviceMetrics count the work with device plug-ins.
type deviceMetrics struct {
	registrations  *prometheus.CounterVec
	allocations    *prometheus.HistogramVec
	requests       *prometheus.CounterVec
	byMethod       map[string]*prometheus.CounterVec
	errorsByMethod map[string]*prometheus.CounterVec
}

// devices registers the metrics of device plug-ins. Names are the kubelet's.
func (m *metrics) devices() deviceMetrics {
	const endpoint = "kubelet_pod_resources_endpoint_"
	d := deviceMetrics{
		registrations: counters(m.registry, "kubelet_device_plugin_registration_total", "Registrations of device plug-ins, by resource.", "resource_name"),
		allocations:   histograms(m.registry, "kubelet_device_plugin_alloc_duration_seconds", "Duration of Allocate calls to device plug-ins, by resource.", prometheus.DefBuckets, "resource_name"),
		requests:      counters(m.registry, endpoint+"requests_total", "Calls of the PodResources API.", "server_api_version"),
		byMethod:      map[string]*prometheus.CounterVec{}, errorsByMethod: map[string]*prometheus.CounterVec{},
	}
	for method, name := range map[string]string{"List": "list", "Get": "get", "GetAllocatableResources": "get_allocatable"} {
		d.byMethod[method] = counters(m.registry, endpoint+"requests_"+name, "Calls of "+method+" of the PodResources API.", "server_api_version")
		d.errorsByMethod[method] = counters(m.registry, endpoint+"errors_"+name, "Failed calls of "+method+" of the PodResources API.", "server_api_version")
	}
	return d
}

func (d deviceMetrics) registered(resource string) { d.registrations.WithLabelValues(resource).Inc() }

func (d deviceMetrics) allocated(resource string, took time.Duration) {
	d.allocations.WithLabelValues(resource).Observe(took.Seconds())
}

func (d deviceMetrics) called(method string, err error) {
	d.requests.WithLabelValues("v1").Inc()
	if calls := d.byMethod[method]; calls != nil {
		calls.WithLabelValues("v1").Inc()
		if err != nil {
			d.errorsByMethod[method].WithLabelValues("v1").Inc()
		}
	}
}
