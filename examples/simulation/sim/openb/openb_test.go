// SPDX-License-Identifier: Apache-2.0

package openb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/simulation/sim/openb"
)

// csvs returns a small cluster and a trace with shares, whole GPUs and models.
func csvs() (nodeList, podList string) {
	var nodes, pods strings.Builder
	nodes.WriteString("sn,cpu_milli,memory_mib,gpu,model\n")
	for i := range 40 {
		fmt.Fprintf(&nodes, "node-%03d,96000,393216,8,%s\n", i, []string{"T4", "V100"}[i%2])
	}
	random := rand.New(rand.NewPCG(1, 1))
	pods.WriteString("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n")
	for i := range 500 {
		gpus := []string{"0,0,", "1,250,", "1,500,T4", "1,700,", "1,1000,", "2,1000,V100|T4", "8,1000,"}[random.IntN(7)]
		fmt.Fprintf(&pods, "pod-%04d,%d,4096,%s\n", i, 1000*(1+random.IntN(8)), gpus)
	}
	return nodes.String(), pods.String()
}

// synthetic returns an experiment with csvs.
func synthetic(t testing.TB) openb.Experiment {
	nodes, pods := csvs()
	cluster, err := openb.ReadNodes(strings.NewReader(nodes), "nodes.csv")
	require.NoError(t, err)
	trace, err := openb.ReadPods(strings.NewReader(pods), "pods.csv")
	require.NoError(t, err)
	return openb.Experiment{Cluster: cluster, Pods: trace, Seed: 42}
}

// TestPoliciesDiffer: each policy is reproducible, and the GPU policies leave fewer pods out than
// chance does.
func TestPoliciesDiffer(t *testing.T) {
	e := synthetic(t)
	at := map[openb.Policy]float64{}
	for _, p := range openb.Policies() {
		e.Policy = p
		first, err := e.Run(t.Context())
		require.NoError(t, err)
		again, err := e.Run(t.Context())
		require.NoError(t, err)
		assert.Equal(t, first, again, p)
		at[p] = first.At100
		assert.InDelta(t, 130, first.Demand[len(first.Demand)-1], 3)
	}
	assert.Greater(t, at[openb.FGD], at[openb.Random])
	assert.Greater(t, at[openb.BestFit], at[openb.Random])
}

func TestReadErrors(t *testing.T) {
	const head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
	for text, want := range map[string]string{
		"":                              "x.csv:1: the file is empty",
		"name,cpu_milli\n":              `x.csv:1: the header has no column "memory_mib"`,
		head + "a,1,1,0,0\nb,x,1,0,0\n": `x.csv:3: column cpu_milli: "x" is not a whole number`,
		head + "a,-1,1,0,0\n":           "x.csv:2: column cpu_milli: -1 is negative",
		head + "a,1,1,2,500\n":          "x.csv:2: column gpu_milli: 500 thousandths of each of 2 GPUs",
		head + ",1,1,0,0\n":             "x.csv:2: column name: a pod needs a name",
		head + "a,\"1\n":                "x.csv: ",
	} {
		_, err := openb.ReadPods(strings.NewReader(text), "x.csv")
		assert.ErrorContains(t, err, want)
	}
	for text, want := range map[string]string{
		"sn,cpu_milli,memory_mib,gpu\na,1,1,1\na,1,1,1\n": `n.csv:3: column sn: "a" is the name of an earlier node`,
		"sn,cpu_milli,memory_mib,gpu\n,1,1,1\n":           "n.csv:2: column sn",
		"sn,cpu_milli,memory_mib,gpu\na,1,1,9999\n":       "n.csv:2: column gpu: 9999 GPUs",
	} {
		_, err := openb.ReadNodes(strings.NewReader(text), "n.csv")
		assert.ErrorContains(t, err, want)
	}
	pods, err := openb.ReadPods(strings.NewReader("\ufeffgpu_milli,num_gpu,memory_mib,cpu_milli,name\n1000,1,1,1.0,a\n0,0,1,1,b"), "x.csv")
	require.NoError(t, err, "another order of columns, a byte order mark, no newline at the end")
	assert.Len(t, pods, 2)
}

func ExampleExperiment() {
	cluster, err := openb.ReadNodes(strings.NewReader("sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,T4\nb,64000,262144,2,T4\n"), "nodes.csv")
	if err != nil {
		fmt.Println(err)
		return
	}
	pods, err := openb.ReadPods(strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,1,500\n"), "pods.csv")
	if err != nil {
		fmt.Println(err)
		return
	}
	curve, err := openb.Experiment{Cluster: cluster, Pods: pods, Policy: openb.FGD, Seed: 42}.Run(context.Background())
	fmt.Println(curve.At100, curve.Failed, err)
	// Output: 100 2 <nil>
}
