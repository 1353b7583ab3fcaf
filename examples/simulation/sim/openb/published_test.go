// SPDX-License-Identifier: Apache-2.0

package openb_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/simulation/sim/openb"
)

// TestPublishedTable repeats the experiment of the paper on the real traces.
func TestPublishedTable(t *testing.T) {
	dir := os.Getenv("OPENB")
	if dir == "" {
		t.Skip("OPENB is not set: name the folder with openb_node_list_gpu_node.csv and openb_pod_list_*.csv")
	}
	folder, err := openb.OpenFolder(dir)
	require.NoError(t, err)
	cells, err := folder.Table(t.Context(), []int64{42, 43, 44, 45, 46, 47, 48, 49, 50, 51})
	require.NoError(t, err)
	for _, c := range cells {
		assert.True(t, c.Inside(), "%s %s: the median %.2f is outside of %v", c.List, c.Policy, c.Median(), c.Published)
	}
}

// TestTable: the cells are in order, with ascending values, and equal in a second run.
func TestTable(t *testing.T) {
	dir := t.TempDir()
	nodes, pods := csvs()
	pods = strings.ReplaceAll(pods, ",8,1000,", ",1,1000,") // every percent of demand has an arrival
	_, err := openb.OpenFolder(dir)
	require.ErrorContains(t, err, "has no openb_node_list_gpu_node.csv")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openb_node_list_gpu_node.csv"), []byte(nodes), 0o644))
	_, err = openb.OpenFolder(dir)
	require.ErrorContains(t, err, "has no openb_pod_list_*.csv")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openb_pod_list_mine.csv"), []byte(pods), 0o644))
	folder, err := openb.OpenFolder(dir)
	require.NoError(t, err)
	_, err = folder.Pods("other")
	require.ErrorContains(t, err, `no pod list "other"; the lists are mine`)

	cells, err := folder.Table(t.Context(), []int64{1, 2, 3})
	require.NoError(t, err)
	again, err := folder.Table(t.Context(), []int64{1, 2, 3})
	require.NoError(t, err)
	assert.Equal(t, cells, again)
	require.Len(t, cells, 6)
	for i, c := range cells {
		assert.Equal(t, openb.Policies()[i], c.Policy)
		assert.IsNonDecreasing(t, c.At100)
		assert.Equal(t, c.At100[1], c.Median())
		assert.True(t, c.Inside(), "no range is published")
	}
	c := openb.Cell{At100: []float64{1, 2, 3, 4}, Published: [2]float64{2.6, 9}}
	assert.Equal(t, 2.5, c.Median())
	assert.False(t, c.Inside())
}

func TestReplay(t *testing.T) {
	e := synthetic(t)
	_, err := openb.Replay(e.Pods)
	require.ErrorContains(t, err, "no deletion_time")
	pods := e.Pods[:3]
	pods[0].Created, pods[0].Scheduled, pods[0].Deleted = 9*time.Second, 10*time.Second, 30*time.Second
	pods[1].Created, pods[1].Scheduled, pods[1].Deleted = 5*time.Second, -1, 5*time.Second
	pods[2].Created, pods[2].Scheduled, pods[2].Deleted = 7*time.Second, 7*time.Second, -1
	arrivals, err := openb.Replay(pods)
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{time.Second, 0, 20 * time.Second}, []time.Duration{arrivals[0].Duration, arrivals[1].Duration, arrivals[2].Duration})
	assert.Equal(t, 5*time.Second, arrivals[0].At)
}
