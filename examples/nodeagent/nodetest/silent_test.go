// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// TestPodsAreForgottenWhileASourceIsSilent: an API server may be away for weeks, and the pods of another source come
// and go meanwhile.
func TestPodsAreForgottenWhileASourceIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, err := fake.New(fake.Options{})
		require.NoError(t, err)
		silent := podconfig.SourceFunc(podconfig.SourceAPI, func(ctx context.Context, _ podconfig.Sink) error {
			<-ctx.Done()
			return nil
		})
		bus := podconfig.SourceFunc("bus", func(ctx context.Context, out podconfig.Sink) error {
			for i := range 20 {
				pod := nodetest.Pod(fmt.Sprint("p", i), nodetest.Container("c"))
				if err := out.Submit(ctx, podconfig.Snapshot(pod)); err != nil {
					return err
				}
				time.Sleep(10 * time.Second)
			}
			<-ctx.Done()
			return nil
		})
		var seen *feature.Slot[bool]
		agent, err := node.New(node.Options{
			NodeName: "n", Root: t.TempDir(), Runtime: rt, Sources: []podconfig.Source{silent, bus},
			Features: func(h *feature.Host) []feature.Feature {
				seen = feature.NewSlot[bool](h.Table)
				return []feature.Feature{{Name: "seen", Published: func(pod *v1.Pod, _ v1.PodStatus) { seen.Set(pod.UID, true) }}}
			},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- agent.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, len(maps.Collect(seen.All())), 1, "the records of pods that are gone")
		cancel()
		require.NoError(t, <-ended)
	})
}
