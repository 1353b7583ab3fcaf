// SPDX-License-Identifier: Apache-2.0

package philly_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/simulation/sim/philly"
)

const log = `[
 {"status": "Pass", "vc": "a", "jobid": "application_2", "user": "u1", "submitted_time": "2017-10-09 08:00:00",
  "attempts": [
   {"start_time": "2017-10-09 08:01:00", "end_time": "2017-10-09 08:11:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1", "gpu2", "gpu3"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]},
   {"start_time": "2017-10-09 08:12:00", "end_time": "2017-10-09 08:13:00", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}
  ]},
 {"status": "Killed", "vc": "a", "jobid": "application_1", "user": "u2", "submitted_time": "2017-10-09 07:00:00",
  "attempts": [{"start_time": "2017-10-09 07:00:30", "end_time": "2017-10-09 07:01:00", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
 {"status": "Killed", "vc": "a", "jobid": "application_3", "user": "u2", "submitted_time": "2017-10-09 07:00:00", "attempts": []},
 {"status": "Failed", "vc": "a", "jobid": "application_4", "user": "u2", "submitted_time": "2017-10-09 07:00:00",
  "attempts": [{"start_time": null, "end_time": "None", "detail": []}]}
]
`

func ExampleRead() {
	trace, err := philly.Read(strings.NewReader(log), "cluster_job_log")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, j := range trace.Jobs {
		fmt.Println(j.ID, j.Submitted, j.Duration, j.Pods, j.GPUs)
	}
	fmt.Println(trace.Skipped, "skipped")
	// Output:
	// application_1 0s 30s 1 1
	// application_2 1h0m0s 11m0s 3 2
	// 2 skipped
}

func TestWorkload(t *testing.T) {
	trace, err := philly.Read(strings.NewReader(log), "log")
	require.NoError(t, err)
	work, err := trace.Workload(philly.Options{CPUPerGPU: 4, MemoryPerGPU: 1 << 30})
	require.NoError(t, err)
	require.Len(t, work, 2)
	assert.Equal(t, 3, work[1].Pods)
	assert.Equal(t, int64(8000), work[1].Shape.Requests.CPU)
	assert.Equal(t, int64(2<<30), work[1].Shape.Requests.Memory)
	assert.Equal(t, int64(2000), work[1].Shape.GPU.Total())
	assert.Equal(t, time.Hour, work[1].At)
}

// TestReadErrors: an error names the line of the job and the field.
func TestReadErrors(t *testing.T) {
	for change, want := range map[[2]string]string{
		{`"Killed", "vc": "a", "jobid": "application_1"`, `"Running", "vc": "a", "jobid": "application_1"`}: `log:7: job "application_1": status: "Running" is not`,
		{`"jobid": "application_2"`, `"jobid": ""`}:                                                         `log:2: job "": jobid: missing`,
		{`"2017-10-09 07:00:00",` + "\n", `"yesterday",` + "\n"}:                                            `log:7: "yesterday" is not a time like 2017-10-09 07:02:32`,
		{`"2017-10-09 08:11:00"`, `"2017-10-09 08:00:00"`}:                                                  `log:2: job "application_2": attempts[0].end_time: before start_time`,
		{`"submitted_time": "2017-10-09 08:00:00",`, ``}:                                                    `log:2: job "application_2": submitted_time: missing`,
		{`["gpu0", "gpu1"]`, `7`}:                                                                           `log:2: json: cannot unmarshal number`,
		{"]\n", ""}:                                                                                         `log:12: the array of jobs does not end`,
		{"[\n", "{\n"}:                                                                                      `log:1: want an array of jobs`,
	} {
		text := strings.Replace(log, change[0], change[1], 1)
		if change[0] == "]\n" {
			text = strings.TrimSuffix(log, "]\n")
		}
		_, err := philly.Read(strings.NewReader(text), "log")
		assert.ErrorContains(t, err, want)
	}
}
