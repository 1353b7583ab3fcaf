// SPDX-License-Identifier: Apache-2.0

package walls

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

func TestWidest(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want record.Range
	}{
		"nothing":                 {"", record.Range{}},
		"by name":                 {"other:1:9\nedge:100000:65536\n", record.Range{First: 100000, Count: 65536}},
		"by number, no last line": {"1000:5:7", record.Range{First: 5, Count: 7}},
		"the widest":              {"edge:1:2\n1000:10:30\nedge:100:29\n", record.Range{First: 10, Count: 30}},
		"of others":               {"edgeling:1:2\nedge2:1:2\n100:1:2\n", record.Range{}},
		"comments and spaces":     {"# edge:1:2\n\n  edge:3:4  \n", record.Range{First: 3, Count: 4}},
		"broken":                  {"edge:1\nedge:x:2\nedge:1:x\nedge:1:2:3\nedge:-1:2\nedge:1:0\n", record.Range{}},
		"beyond the last ID":      {"edge:4294967295:1\nedge:1:4294967296\nedge:4294900000:100000\nedge:1:2\n", record.Range{First: 1, Count: 2}},
	} {
		assert.Equal(t, tt.want, widest(strings.NewReader(tt.file), "edge", "1000"), name)
	}
}
