// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAfterLacks(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		all        []lack
		from, late time.Duration
	}{
		"nothing":                     {nil, 10 * s, 0},
		"before":                      {[]lack{{0, 5 * s, s}}, 10 * s, 0},
		"later":                       {[]lack{{11 * s, 15 * s, s}}, 10 * s, 0},
		"now":                         {[]lack{{5 * s, 15 * s, s}}, 15 * s, s},
		"for ever":                    {[]lack{{5 * s, forever, s}}, forever, 0},
		"two at once":                 {[]lack{{5 * s, 20 * s, s}, {0, 20 * s, 30 * s}}, 20 * s, 30 * s},
		"the shorter is noticed late": {[]lack{{5 * s, 20 * s, s}, {0, 15 * s, 30 * s}}, 20 * s, 30 * s},
		"one after the other":         {[]lack{{5 * s, 15 * s, s}, {15 * s, 20 * s, 2 * s}}, 20 * s, 2 * s},
		"again before it is noticed":  {[]lack{{5 * s, 15 * s, 3 * s}, {17 * s, 30 * s, 4 * s}}, 15 * s, 19 * s},
		"again after it is noticed":   {[]lack{{5 * s, 15 * s, 3 * s}, {19 * s, 30 * s, 4 * s}}, 15 * s, 3 * s},
	} {
		from, late := after(tc.all, 10*s)
		assert.Equal(t, [...]time.Duration{tc.from, tc.late}, [...]time.Duration{from, late}, name)
	}
	from, late := after([]lack{{0, 5 * s, 3 * s}, {6 * s, forever, 4 * s}}, 0)
	assert.Equal(t, 5*s, from)
	assert.Greater(t, late, forever/4, "the agent may never notice")
}
