// SPDX-License-Identifier: Apache-2.0

package agents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/agents"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/internal/apiservertest"
)

var apiserver apiservertest.Shared

func TestMain(m *testing.M) { os.Exit(apiserver.Main(m)) }

// events returns the names of the kinds of events by pod, and the node of each pod, from a journal.
func events(t *testing.T, journal *bytes.Buffer) (kinds map[string][]string, places map[string]string) {
	t.Helper()
	kinds, places = map[string][]string{}, map[string]string{}
	for line := range strings.Lines(journal.String()) {
		var e struct{ Event, Pod, Node string }
		if json.Unmarshal([]byte(line), &e) != nil || e.Event == "" || e.Pod == "" {
			continue
		}
		kinds[e.Pod] = append(kinds[e.Pod], e.Event)
		if e.Event == "bound" {
			places[e.Pod] = e.Node
		}
	}
	return kinds, places
}

// TestThreeBackends: a scenario has the same events and placements on timers, on agents in virtual time, and
// on agents of a kube-apiserver in real time. All pods of a wave are placed before the first of them ends.
func TestThreeBackends(t *testing.T) {
	server := apiserver.Get(t)
	require.NoError(t, server.CreateNamespace(t.Context(), "three"))
	core, err := server.Core()
	require.NoError(t, err)
	var work sim.Arrivals
	for wave := range 2 {
		for i := range 8 {
			work = append(work, sim.Arrival{
				At: time.Duration(wave)*20*time.Second + time.Duration(i)*200*time.Millisecond, Name: "job" + string(rune('a'+8*wave+i)),
				Shape: shape(t, []string{"500m", "1", "1500m"}[i%3], 0), Duration: 6*time.Second + time.Duration(i)*100*time.Millisecond,
			})
		}
	}
	o := sim.Options{Nodes: nodes(4), Workload: work, Profile: kube.Profile(), Seed: 7, Model: sim.Model{
		Source: "a test", Create: 100 * time.Millisecond, Bandwidth: 1 << 30, ImageSizes: map[string]int64{"docker.io/library/image:latest": 100 << 20},
	}}
	type outcome struct {
		kinds  map[string][]string
		places map[string]string
	}
	var all []outcome
	for _, backend := range []string{"timers", "agents", "api"} {
		var journal bytes.Buffer
		o.Journal = &journal
		var report *sim.Report
		switch backend {
		case "timers":
			s, err := sim.New(o)
			require.NoError(t, err)
			report, err = s.Run(t.Context())
			require.NoError(t, err)
		case "agents":
			report, err = agents.Run(t.Context(), o)
		case "api":
			began := time.Now()
			report, err = agents.RunAPI(t.Context(), agents.APIOptions{Config: server.Config(), Namespace: "three"}, o)
			assert.Greater(t, time.Since(began), 26*time.Second, "the run is in real time")
		}
		require.NoError(t, err, backend)
		assert.Equal(t, 16, report.Succeeded, backend)
		kinds, places := events(t, &journal)
		all = append(all, outcome{kinds, places})
	}
	require.Len(t, all[0].places, 16)
	assert.Equal(t, all[0], all[1])
	assert.Equal(t, all[0], all[2])
	pods, err := core.Pods("three").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, pods.Items)
	left, err := core.Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, left.Items)
}

// TestEvictionsAndLostNodesOnAnAPIServer: pods of high priority evict others, and the pods of a lost node start
// again when it is back.
func TestEvictionsAndLostNodesOnAnAPIServer(t *testing.T) {
	server := apiserver.Get(t)
	require.NoError(t, server.CreateNamespace(t.Context(), "evicts"))
	work := sim.Arrivals{
		{Name: "low", Shape: shape(t, "3", 0), Duration: time.Hour},
		{Name: "stays", Shape: shape(t, "1", 5), Duration: 8 * time.Second},
		{At: 2 * time.Second, Name: "high", Shape: shape(t, "3", 10), Duration: 3 * time.Second},
	}
	var journal bytes.Buffer
	o := sim.Options{
		Nodes: nodes(1), Workload: work, Profile: kube.Profile(), Journal: &journal, Until: 25 * time.Second,
		Model:  sim.Model{Source: "a test", Stop: 500 * time.Millisecond},
		Faults: []sim.Fault{{Node: "node-0", At: 7 * time.Second, For: time.Second}},
	}
	report, err := agents.RunAPI(t.Context(), agents.APIOptions{Config: server.Config(), Namespace: "evicts"}, o)
	require.NoError(t, err)
	assert.Equal(t, 1, report.Preempted)
	assert.Equal(t, 1, report.LostNodes)
	kinds, _ := events(t, &journal)
	assert.Equal(t, []string{"submitted", "bound", "pulled", "started", "ready", "evicting", "ended"}, kinds["low"][:7])
	assert.Contains(t, kinds["high"], "ended")
	assert.Equal(t, "ended", kinds["stays"][len(kinds["stays"])-1], "%v", kinds["stays"])
}

// TestAPIRefusals: the run has no effect on nodes and pods of others, and an end of the context ends it at once.
func TestAPIRefusals(t *testing.T) {
	server := apiserver.Get(t)
	core, err := server.Core()
	require.NoError(t, err)
	foreign, err := core.Nodes().Create(t.Context(), apiservertest.Node("node-0"), metav1.CreateOptions{})
	require.NoError(t, err)
	work := sim.Arrivals{{Name: "job", Shape: shape(t, "1", 0), Duration: time.Hour}}
	o := sim.Options{Nodes: nodes(1), Workload: work, Profile: kube.Profile()}
	api := agents.APIOptions{Config: server.Config()}
	_, err = agents.RunAPI(t.Context(), api, o)
	require.ErrorContains(t, err, "agents: node node-0 exists on the API server")
	same, err := core.Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, foreign.UID, same.UID)
	require.NoError(t, core.Nodes().Delete(t.Context(), "node-0", metav1.DeleteOptions{}))

	wrong := o
	wrong.Nodes = []*v1.Node{o.Nodes[0].DeepCopy()}
	wrong.Nodes[0].Labels = map[string]string{"gpu": "no label value"}
	_, err = agents.RunAPI(t.Context(), api, wrong)
	require.ErrorContains(t, err, "gpu=no label value is no label")

	none := api
	none.Namespace = "nowhere"
	_, err = agents.RunAPI(t.Context(), none, o)
	require.ErrorContains(t, err, "agents: create pod nowhere/pod-1 of job: ")

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = agents.RunAPI(ctx, api, o)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	left, err := core.Pods("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, left.Items)
	_, err = core.Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
	assert.Error(t, err)
}
