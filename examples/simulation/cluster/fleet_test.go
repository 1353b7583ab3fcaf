// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/examples/simulation/cluster"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

var (
	fleetNodes = flag.Int("fleet-nodes", 5, "the nodes of TestFleet")
	fleetSeeds = flag.Int("fleet-seeds", 2, "the seeds of TestFleet")
	journals   = flag.String("fleet-journals", "", "a new folder for the journals of TestFleet, a file per seed")
)

// TestFleet: under command dst, the journal of many nodes is a function of the seed, in spite of lost
// nodes and troubles of the API server. Without dst, the test checks how the pods end.
func TestFleet(t *testing.T) {
	_, ordered := os.LookupEnv("DST_SEED")
	for seed := range nodetest.Deterministic(t, 1, *fleetSeeds) {
		first := fleet(t, seed)
		if *journals != "" {
			require.NoError(t, os.MkdirAll(*journals, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(*journals, fmt.Sprint(seed)), []byte(first), 0o644))
			continue
		}
		if ordered {
			require.Equal(t, first, fleet(t, seed), "seed %d", seed)
		}
	}
}

// journal is the events of all nodes and of the API server, in their order.
type journal struct {
	mu   sync.Mutex
	born time.Time
	text strings.Builder
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(&j.text, "%12.6fs ", time.Since(j.born).Seconds())
	fmt.Fprintf(&j.text, format+"\n", args...)
}

// fleet runs a random scenario for some minutes, and returns the journal. Each pod runs to its end, or
// is removed.
func fleet(t *testing.T, seed uint64) string {
	j := &journal{}
	server, err := statustest.New(statustest.Options{})
	require.NoError(t, err)
	o := cluster.Options{
		Server: server, Lag: 200 * time.Millisecond, Seed: seed, Bandwidth: 100 << 20, ImageSizes: map[string]int64{"image:latest": 1 << 30},
		Latency: func(node string, call fake.Call) time.Duration {
			j.add("%s %s %s %s", node, call.Op, call.UID, call.Container)
			if call.Op == fake.OpCreateContainer {
				return 300 * time.Millisecond
			}
			return 0
		},
		Behave: func(pod *v1.Pod, _ runtime.ContainerSpec) fake.Script {
			runs, err := time.ParseDuration(pod.Annotations["runs"])
			assert.NoError(t, err)
			return fake.Script{ExitAfter: runs, ReadyAfter: time.Second, TermAfter: 2 * time.Second, TermCode: 143}
		},
	}
	var shared, copies []*v1.Pod
	start(t, *fleetNodes, o, func(c *cluster.Cluster) {
		j.born = time.Now()
		server.Watch(func(pod *v1.Pod) { shared, copies = append(shared, pod), append(copies, pod.DeepCopy()) })
		server.Watch(func(pod *v1.Pod) { j.add("server %s %s %s", pod.UID, pod.ResourceVersion, pod.Status.Phase) })
		random := rand.New(rand.NewPCG(seed, 2))
		var uids []types.UID
		for i := range 4 * *fleetNodes {
			pod := nodetest.Pod(fmt.Sprint("pod-", i), nodetest.Container("c"), nodetest.RestartPolicy(v1.RestartPolicyOnFailure))
			pod.UID, pod.Spec.NodeName = types.UID(fmt.Sprint("uid-", i)), c.Nodes()[random.IntN(*fleetNodes)].Name
			pod.Annotations = map[string]string{"runs": (time.Duration(1+random.IntN(120)) * time.Second).String()}
			uids = append(uids, server.Create(pod).UID)
			n := c.Nodes()[random.IntN(*fleetNodes)]
			switch random.IntN(20) {
			case 0:
				n.Lose()
				time.AfterFunc(time.Minute, n.Return)
			case 1:
				n.Client.EndWatches()
			case 2:
				server.Compact()
				n.Client.EndWatches()
			case 3:
				n.Client.Cut(apierrors.NewServiceUnavailable("maintenance"))
				time.AfterFunc(30*time.Second, n.Client.Mend)
			case 4:
				_, _ = server.Delete(uids[random.IntN(i+1)]) // may be gone
			case 5:
				server.Remove(uids[random.IntN(i+1)])
			}
			time.Sleep(time.Duration(random.IntN(2000*5 / *fleetNodes)) * time.Millisecond)
		}
		time.Sleep(20 * time.Minute)
		for _, uid := range uids {
			assert.Contains(t, []v1.PodPhase{v1.PodSucceeded, "gone"}, phase(c, uid), "seed %d: %s", seed, uid)
		}
		for _, n := range c.Nodes() {
			assert.NoError(t, n.World.NoOverlap(), "seed %d: %s", seed, n.Name)
		}
		assert.Equal(t, copies, shared, "seed %d: an agent has written to a pod that it shares with the API server", seed)
		requests := server.Journal()
		require.NotEmpty(t, requests)
		began := requests[0].At // the server is older than the bubble
		for _, e := range requests {
			e.At -= began
			j.add("%s %s", e, e.Patch)
		}
	})
	return j.text.String()
}
