// SPDX-License-Identifier: Apache-2.0

package pressure_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
)

// BenchmarkJudge is a pass on a node without pressure, with the kubelet's thresholds.
func BenchmarkJudge(b *testing.B) {
	p := policy(b, pressure.Settings{Hard: pressure.DefaultHard()})
	readings := map[pressure.Signal]pressure.Reading{}
	for _, s := range pressure.Signals() {
		readings[s] = pressure.Reading{Available: 900, Capacity: 1000, At: start}
	}
	var state pressure.State
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		state, _ = p.Judge(state, readings, start.Add(time.Duration(i)*time.Second))
	}
}

func BenchmarkRank(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			var all []pressure.Usage
			for i := range n {
				all = append(all, using(int64(i*7919%n), pod(strconv.Itoa(i), priority(int32(i%3)))))
			}
			b.ReportAllocs()
			for b.Loop() {
				pressure.Rank(pressure.MemoryAvailable, pressure.Layout{}, all)
			}
		})
	}
}
