// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podworkers"
)

// A pod of an earlier agent that the gate has held is admitted before the workers know the pod. A look for remains
// in between stops nothing (seed 2574 of the random schedules of nodetest, in a run of 40).
func TestARunningPodIsNotStoppedBetweenItsAdmissionAndItsWorker(t *testing.T) {
	for name, c := range map[string]struct {
		listed  bool
		entry   feature.Entry
		awaited bool
	}{
		"admitted":  {true, feature.Admitted, true},
		"held":      {true, feature.Held, true},
		"refused":   {true, feature.Refused, false},
		"no source": {false, feature.Admitted, false},
	} {
		t.Run(name, func(t *testing.T) {
			var syncer struct {
				podworkers.PodSyncer
				podworkers.OrphanSyncer
			}
			workers, err := podworkers.New(podworkers.Options{Syncer: syncer})
			require.NoError(t, err)
			workers.SyncKnownPods(nil)
			host := &feature.Host{Table: feature.NewTable(), Workers: workers, Sourced: make(chan struct{})}
			close(host.Sourced)
			pod := &v1.Pod{}
			pod.Namespace, pod.Name, pod.UID = "ns", "web", "u"
			if c.listed {
				host.SetDesired(pod)
				host.SetEntry(pod.UID, c.entry, nil)
			}
			w := podWorkers{Workers: workers, host: host}
			require.Equal(t, c.awaited, w.CouldHaveRunningContainers(pod.UID))
			require.Equal(t, !c.awaited, w.ShouldPodRuntimeBeRemoved(pod.UID))
			stopping, err := w.StopUnknown(pod.UID, pod.Namespace, pod.Name, time.Second)
			require.NoError(t, err)
			require.Equal(t, !c.awaited, stopping)
			_, known := workers.Info(pod.UID)
			require.Equal(t, !c.awaited, known, "a record would delay the pod until its remains are removed")
		})
	}
}
