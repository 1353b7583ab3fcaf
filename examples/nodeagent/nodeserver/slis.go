// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/keelson-dev/keelson/examples/nodeagent/internal/exposition"
)

// SLIs serves /metrics/slis: the result of each health check, and counts of the results. The check
// "ping" is added, as in Health. Each request makes the checks. The kubelet (1.36) reports the results
// of requests for /healthz instead.
func SLIs(checks ...Check) Group {
	s := &slis{checks: withPing(checks)}
	s.counts = make([]checkCounts, len(s.checks))
	return get("/metrics/slis", s.serve)
}

// slis makes health checks, and counts their results.
type slis struct {
	checks []Check
	counts []checkCounts // by index of the check
}

type checkCounts struct{ succeeded, failed atomic.Uint64 }

// check makes a check, and returns the metric of its result: 1 is success, 0 is failure.
func (s *slis) check(ctx context.Context, i int) float64 {
	if s.checks[i].Do(ctx) != nil {
		s.counts[i].failed.Add(1)
		return 0
	}
	s.counts[i].succeeded.Add(1)
	return 1
}

func (s *slis) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", exposition.ContentType)
	out := exposition.NewWriter(w)
	labels := func(i int) exposition.Labels {
		return exposition.Labels{}.With("name", s.checks[i].Name, "type", "healthz")
	}
	out.Metric("kubernetes_healthcheck", exposition.Gauge, "Result of a health check: 1 is success, 0 is failure.")
	for i := range s.checks {
		out.Sample(labels(i), s.check(r.Context(), i), time.Time{})
	}
	out.Metric("kubernetes_healthchecks_total", exposition.Counter, "Results of health checks.")
	for i := range s.counts {
		if n := s.counts[i].failed.Load(); n > 0 {
			out.Sample(labels(i).With("status", "error"), float64(n), time.Time{})
		}
		if n := s.counts[i].succeeded.Load(); n > 0 {
			out.Sample(labels(i).With("status", "success"), float64(n), time.Time{})
		}
	}
	_ = out.Flush() // a client that has left cannot be told
}
