// SPDX-License-Identifier: Apache-2.0

package exposition_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/internal/exposition"
)

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := exposition.NewWriter(&out)
	pod := exposition.Labels{}.With("pod", "web", "namespace", "default")
	w.Metric("cpu_seconds_total", exposition.Counter, "Time\nof \\ processors.")
	w.Sample(pod, 1.5, time.UnixMilli(1700000000123))
	w.Sample(pod.With("container", `a"b\c`+"\n"), 1e-9, time.Time{})
	w.SampleWith(pod, exposition.Labels{}.With("cpu", "total"), 2, time.Time{})
	w.SampleWith(exposition.Labels{}, exposition.Labels{}.With("cpu", "total"), 3, time.Time{})
	w.Metric("nothing", exposition.Gauge, "Left out.")
	w.Metric("up", exposition.Gauge, "")
	w.Sample(exposition.Labels{}, math.Inf(1), time.Time{})
	require.NoError(t, w.Flush())
	require.Equal(t, `# HELP cpu_seconds_total Time\nof \\ processors.
# TYPE cpu_seconds_total counter
cpu_seconds_total{pod="web",namespace="default"} 1.5 1700000000123
cpu_seconds_total{pod="web",namespace="default",container="a\"b\\c\n"} 1e-09
cpu_seconds_total{pod="web",namespace="default",cpu="total"} 2
cpu_seconds_total{cpu="total"} 3
# HELP up 
# TYPE up gauge
up +Inf
`, out.String())
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestWriterReturnsTheFirstError(t *testing.T) {
	w := exposition.NewWriter(broken{})
	w.Metric("m", exposition.Gauge, "")
	for range 10000 {
		w.Sample(exposition.Labels{}, 1, time.Time{})
	}
	require.EqualError(t, w.Flush(), "gone")
}

// The parser of Prometheus reads back what was written.
func FuzzSample(f *testing.F) {
	f.Add("web", "", 1.0, int64(0))
	f.Add("a\"b\\c\nd", "help\\n", -0.5, int64(1700000000123))
	f.Add("\xff\x00é", "\n", math.MaxFloat64, int64(-1))
	f.Fuzz(func(t *testing.T, value, help string, number float64, millis int64) {
		at := time.Time{}
		if millis != 0 {
			at = time.UnixMilli(millis)
		}
		var out bytes.Buffer
		w := exposition.NewWriter(&out)
		w.Metric("m", exposition.Gauge, help)
		w.Sample(exposition.Labels{}.With("l", value), number, at)
		require.NoError(t, w.Flush())
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(&out)
		require.NoError(t, err)
		got := families["m"].GetMetric()
		require.Len(t, got, 1)
		require.Equal(t, strings.ToValidUTF8(value, "\uFFFD"), got[0].GetLabel()[0].GetValue())
		if !math.IsNaN(number) {
			require.Equal(t, number, got[0].GetGauge().GetValue())
		}
		if !at.IsZero() {
			require.Equal(t, at.UnixMilli(), got[0].GetTimestampMs())
		}
	})
}
