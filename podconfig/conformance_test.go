// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"testing"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/podconfigtest"
)

func TestConformance(t *testing.T) {
	podconfigtest.Run(t, func(tb testing.TB) podconfig.Merger { return newStore(tb, podconfig.StoreOptions{}) })
}
