// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/workload"
)

func shapes() []*sim.Shape {
	s, err := sim.NewShape(&v1.Pod{}, sim.GPURequest{})
	if err != nil {
		return nil
	}
	return []*sim.Shape{s}
}

func ExamplePoisson() {
	jobs := workload.Poisson{Seed: 1, Jobs: 100, Every: time.Second, Mean: time.Minute, Shapes: shapes()}
	count, last := 0, time.Duration(0)
	for job, err := range jobs.Arrivals() {
		if err != nil {
			fmt.Println(err)
			return
		}
		count++
		last = job.At
	}
	fmt.Println(count, last > time.Minute, last < 3*time.Minute)
	// Output: 100 true true
}

// TestDiurnal: most arrivals are at daytime.
func TestDiurnal(t *testing.T) {
	day, night := 0, 0
	w := workload.Poisson{Seed: 1, Jobs: 5000, Every: time.Minute, Mean: time.Minute, Shapes: shapes(), Rate: workload.Diurnal(0.1)}
	for job, err := range w.Arrivals() {
		assert.NoError(t, err)
		if hour := int(job.At.Hours()) % 24; hour >= 6 && hour < 18 {
			day++
		} else {
			night++
		}
	}
	assert.Greater(t, day, 2*night)
	for _, err := range (workload.Poisson{}).Arrivals() {
		assert.Error(t, err)
	}
}
