// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// unfilled are the fields of the Summary API that are absent from every Summary, with the reason. A
// name without a field at its end stands for all fields below.
var unfilled = map[string]string{
	"pods.containers.accelerators":                  "the kubelet (1.36) fills none: PodResources has the devices",
	"pods.containers.userDefinedMetrics":            "the kubelet fills none for containers of a CRI runtime",
	"node.systemContainers.accelerators":            "as for containers",
	"node.systemContainers.userDefinedMetrics":      "as for containers",
	"node.systemContainers.rootfs":                  "the kubelet fills none: a cgroup has no file system",
	"node.systemContainers.logs":                    "the kubelet fills none: a cgroup has no logs",
	"node.systemContainers.swap.swapAvailableBytes": "the cgroup of all pods has no limit of swap, in the kubelet, too",
}

// Every field of the Summary API is filled, or absent for a stated reason. A field of a later version
// of the API needs a decision here.
func TestSummaryFillsTheFieldsOfTheKubelet(t *testing.T) {
	stall := cgroup.Stall{Known: true, Some: 5, All: 4, SomeShare: cgroup.Averages{1, 2, 3}, AllShare: cgroup.Averages{1, 2, 3}}
	psi := cgroup.Pressure{CPU: stall, Memory: stall, IO: stall}
	full := func(at time.Time) *measurement {
		m := example(at)
		memory := stats.Memory{At: at, Usage: 9, WorkingSet: 8, RSS: 7, PageFaults: 6, MajorPageFaults: 5}
		for i := range m.pods[0].Spec.Containers { // so that the pod has a limit
			m.pods[0].Spec.Containers[i].Resources.Limits = m.pods[0].Spec.Containers[0].Resources.Limits
		}
		m.usage["1"].Memory = memory
		m.usage["1"].Containers[0].Memory = memory
		m.began, m.self.Memory = epoch, memory
		m.all = cgroupUsage{
			Container: stats.Container{
				Name: statsapi.SystemContainerPods, CPU: stats.CPU{At: at, UsageNanoseconds: uint64(at.Sub(epoch))}, Memory: memory, Swap: stats.Swap{At: at, Used: 1},
			},
			limit: 100, made: epoch,
		}
		m.pressure.machine, m.pressure.all, m.pressure.pods["1"], m.pressure.containers["m"] = psi, psi, psi, psi
		m.disks.systems["/layers"] = fileSystem{epoch, 2000, 500, 10, 5}
		most, used := int64(9), int64(5)
		m.disks.rlimit = statsapi.RlimitStats{Time: metav1.NewTime(epoch), MaxPID: &most, NumOfRunningProcesses: &used}
		one := m.disks.folders["1"]
		one.volume("data", true).system = fileSystem{epoch, 80, 20, 5, 2}
		return m
	}
	var r rates
	summarize(full(epoch), &r)
	s := summarize(full(epoch.Add(10*time.Second)), &r)

	filled := map[string]bool{}
	fields("", reflect.ValueOf(s).Elem(), filled)
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(filled)) {
		if !filled[name] && reason(name) == "" {
			missing = append(missing, name)
		}
		if filled[name] && reason(name) != "" {
			t.Errorf("%s is filled, and is in the list of absent fields: %s", name, reason(name))
		}
	}
	assert.Empty(t, missing)
	for name := range unfilled {
		assert.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(filled)), func(f string) bool { return isBelow(f, name) }), "there is no field %s", name)
	}
}

// reason returns the reason for the absence of a field, "" if it must be filled.
func reason(field string) string {
	for name, why := range unfilled {
		if isBelow(field, name) {
			return why
		}
	}
	return ""
}

// isBelow reports whether a field is the named field or one of its fields.
func isBelow(field, name string) bool { return field == name || strings.HasPrefix(field, name+".") }

// fields adds the names of all fields of a value, as in JSON, and whether any element of a list has
// them. The value of an absent pointer or of an empty list is that of its type.
func fields(name string, v reflect.Value, filled map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
			if v.Elem().Kind() != reflect.Struct {
				filled[name] = filled[name] || false
				return
			}
		} else if v.Elem().Kind() != reflect.Struct {
			filled[name] = true
			return
		}
		fields(name, v.Elem(), filled)
	case reflect.Slice:
		fields(name, reflect.New(v.Type().Elem()).Elem(), filled)
		for i := range v.Len() {
			fields(name, v.Index(i), filled)
		}
	case reflect.Struct:
		if _, isTime := v.Interface().(metav1.Time); isTime {
			filled[name] = filled[name] || !v.IsZero()
			return
		}
		for i := range v.NumField() {
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			below := strings.Trim(name+"."+key, ".")
			fields(below, v.Field(i), filled)
		}
	default:
		filled[name] = filled[name] || !v.IsZero()
	}
}
