// SPDX-License-Identifier: Apache-2.0

package nodetest

import "strings"

// Limits above the requests.

func bursting() ability {
	return ability{fields: func(g *generator, before string) string {
		if strings.Contains(before, " cpu=") && g.chance(40) {
			return " burst=" + pick(g, "2", "3")
		}
		return ""
	}}
}
