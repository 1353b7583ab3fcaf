// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// A pod that returns to its source while it ends starts again at its end, and not at the next regular
// housekeeping pass, also if the end comes while the loop decides about the pod, or the last pass has
// found the pod in its source.
func TestAPodThatReturnsWhileItEndsStartsAtItsEnd(t *testing.T) {
	const end, away = 5 * time.Second, time.Second // regular passes come at 30 s and 60 s
	for name, c := range map[string]struct{ leaves, admission time.Duration }{
		"at once":      {31 * time.Second, 0},
		"after a pass": {58 * time.Second, 0},
		"decided late": {31 * time.Second, 2 * end},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pause time.Duration
				host := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
					o.Features = func(*feature.Host) []feature.Feature {
						return []feature.Feature{{Name: "slow", Check: func(*v1.Pod) []string {
							time.Sleep(pause)
							return nil
						}}}
					}
				}})
				host.World.Script(fake.Target{}, fake.Script{TermAfter: end})
				host.Apply(web("a"))
				time.Sleep(c.leaves)
				pause = c.admission
				host.Apply()
				time.Sleep(away)
				go host.Apply(web("a"))
				time.Sleep(max(end-away, c.admission) + 2*time.Second)
				host.Settle()
				require.Equal(t, 1, count(host, fake.Target{Op: fake.OpExited}), "has ended")
				require.Equal(t, 2, count(host, fake.Target{Op: fake.OpStartContainer}), "runs again")
			})
		})
	}
}

// A pod that ends after it has left its source is forgotten at its end.
func TestAPodThatEndsAfterItHasLeftIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := nodetest.New(t, nodetest.Options{})
		host.World.Script(fake.Target{}, fake.Script{TermAfter: 5 * time.Second})
		host.Apply(web("a"))
		time.Sleep(31 * time.Second) // after a regular pass
		host.Apply()
		time.Sleep(6 * time.Second)
		host.Settle()
		require.Equal(t, 1, count(host, fake.Target{Op: fake.OpRemoveSandbox}))
	})
}
