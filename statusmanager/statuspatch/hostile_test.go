// SPDX-License-Identifier: Apache-2.0

package statuspatch_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statuspatch"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// TestHostileServers plays random hostile servers over HTTP.
func TestHostileServers(t *testing.T) {
	statustest.Run(t, statustest.Harness{Servers: 40, Patcher: func(server *statustest.Server) statusmanager.Patcher {
		patcher, err := statuspatch.New(statuspatch.Options{
			Config: &rest.Config{Host: "http://statustest", Transport: server.Transport(), QPS: -1},
		})
		require.NoError(t, err)
		return patcher
	}})
}
