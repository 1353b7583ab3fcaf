// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
)

func TestScripts(t *testing.T) { nodetest.RunScripts(t, "testdata/*.txt") }
