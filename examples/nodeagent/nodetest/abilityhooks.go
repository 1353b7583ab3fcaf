// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Hooks after the start and before the stop of a container, which take time or fail.

// The commands of hooks that end at once.
const (
	hookFails  = "fail"
	hookPasses = "pass"
)

func hooking() ability {
	return ability{fields: func(g *generator, before string) (s string) {
		if strings.Contains(before, ":all") {
			return "" // agents ignore rules while a hook runs
		}
		for _, hook := range []string{"prestop", "poststart"} {
			if g.chance(14) {
				how := pick(g, "1s", "2s", "5s", hookFails, hookPasses)
				if g.limited && hook == "poststart" && how == hookFails {
					how = hookPasses // a pod whose last start failed releases its room with the next try
				}
				s += fmt.Sprintf(" %s=c:%s", hook, how)
			}
		}
		return s
	}}
}

// hookFailed reports whether the postStart hook of a container fails, so that the container is
// stopped.
func hookFailed(c *v1.Container) bool {
	return c.Lifecycle != nil && c.Lifecycle.PostStart != nil && c.Lifecycle.PostStart.Exec != nil && c.Lifecycle.PostStart.Exec.Command[0] == hookFails
}
