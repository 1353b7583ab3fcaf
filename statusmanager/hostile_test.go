// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"flag"
	"os"
	"testing"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

var servers = flag.Int("servers", 0, "how many hostile servers TestHostileServers plays; 0: 200 (20 under the race detector), or 100,000 with KEELSON_SOAK=1")

// TestHostileServers plays random hostile servers, with and without a Getter, and with a Setter.
func TestHostileServers(t *testing.T) {
	n := *servers
	switch {
	case n > 0:
	case os.Getenv("KEELSON_SOAK") == "1":
		n = 100_000
	default:
		n = casetest.Rounds(200)
	}
	t.Run("with a Getter", func(t *testing.T) {
		statustest.Run(t, statustest.Harness{Servers: n / 2, Seed: *onlySeed, Patcher: func(s *statustest.Server) statusmanager.Patcher { return s }})
	})
	t.Run("with a Setter", func(t *testing.T) {
		statustest.Run(t, statustest.Harness{Servers: n / 2, Seed: *onlySeed, Patcher: func(s *statustest.Server) statusmanager.Patcher { return s.NewClient(0) }})
	})
	t.Run("without", func(t *testing.T) {
		statustest.Run(t, statustest.Harness{Servers: n / 2, Seed: *onlySeed, Patcher: func(s *statustest.Server) statusmanager.Patcher { return patchOnly{s} }})
	})
}
