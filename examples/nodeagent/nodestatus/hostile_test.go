// SPDX-License-Identifier: Apache-2.0

package nodestatus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
	"github.com/keelson-dev/keelson/internal/casetest"
)

// TestHostileServers checks permanent errors of the server: node and lease together cost at most
// five requests in four seconds, mostly for the lease. Both are up to date within 20 s of the
// server's recovery.
func TestHostileServers(t *testing.T) {
	faults := map[string]error{"a plain error": errors.New("no")}
	for _, code := range casetest.Codes() {
		for _, retryAfter := range []int{0, 1_000_000} {
			faults[fmt.Sprintf("%d, retry after %d s", code, retryAfter)] =
				apierrors.NewGenericServerResponse(code, "patch", v1.Resource("nodes"), "gw", "", retryAfter, true)
		}
	}
	for name, fault := range faults {
		for _, from := range []string{"the start", "later"} {
			t.Run(name+" from "+from, func(t *testing.T) {
				begin := func(s *server, _ *nodestatus.Options) {
					if from == "the start" {
						s.down = fault
					}
				}
				on(t, begin, func(t *testing.T, m *machine) {
					m.edit(func() { m.down = fault })
					pass(10 * time.Minute)
					assert.LessOrEqual(t, len(m.taken()), 600*5/4)
					m.edit(func() { m.down = nil })
					pass(20 * time.Second)
					assert.Equal(t, v1.ConditionTrue, m.condition(v1.NodeReady).Status)
					assert.Less(t, m.age(), nodestatus.LeaseDuration/2)
				})
			})
		}
	}
}
