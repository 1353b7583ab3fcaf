// SPDX-License-Identifier: Apache-2.0

package openb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// The files of a folder with the traces.
const (
	nodeList  = "openb_node_list_gpu_node.csv"
	podPrefix = "openb_pod_list_"
)

// Folder is a folder with a node list and pod lists, as in the repository of the traces.
type Folder struct {
	dir string
	// Cluster has the nodes.
	Cluster []*v1.Node
	// Lists are the names of the pod lists, such as "default", in alphabetical order.
	Lists []string
}

// OpenFolder reads the node list, and the names of the pod lists.
func OpenFolder(dir string) (*Folder, error) {
	f := &Folder{dir: dir}
	file, err := os.Open(filepath.Join(dir, nodeList))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("openb: %s has no %s: name the folder with the CSV files of the traces", dir, nodeList)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if f.Cluster, err = ReadNodes(file, file.Name()); err != nil {
		return nil, err
	}
	lists, err := filepath.Glob(filepath.Join(dir, podPrefix+"*.csv"))
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		f.Lists = append(f.Lists, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(list), podPrefix), ".csv"))
	}
	if len(f.Lists) == 0 {
		return nil, fmt.Errorf("openb: %s has no %s*.csv", dir, podPrefix)
	}
	slices.Sort(f.Lists)
	return f, nil
}

// Path returns the file of a pod list.
func (f *Folder) Path(list string) string { return filepath.Join(f.dir, podPrefix+list+".csv") }

// Pods reads a pod list.
func (f *Folder) Pods(list string) ([]Pod, error) {
	if !slices.Contains(f.Lists, list) {
		return nil, fmt.Errorf("openb: %s has no pod list %q; the lists are %s", f.dir, list, strings.Join(f.Lists, ", "))
	}
	file, err := os.Open(f.Path(list))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadPods(file, file.Name())
}

// Cell is the GPU allocation at 100 % demand of several seeds, for a pod list and a policy.
type Cell struct {
	List   string
	Policy Policy
	// At100 has a value for each seed, in ascending order.
	At100 []float64
	// Published is the range of ten seeds in the paper's repository; zeros if the list is not there.
	Published [2]float64
}

// Median returns the median of the seeds.
func (c *Cell) Median() float64 {
	n := len(c.At100)
	return (c.At100[(n-1)/2] + c.At100[n/2]) / 2
}

// Inside reports whether the median is inside of the published range, or no range is published.
func (c *Cell) Inside() bool {
	return c.Published == [2]float64{} || c.Median() >= c.Published[0] && c.Median() <= c.Published[1]
}

// Table runs the experiment for each pod list of the folder, each policy and each seed, on all
// processors. The order of the cells is by list and policy.
func (f *Folder) Table(ctx context.Context, seeds []int64) ([]Cell, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var cells []Cell
	var work []func() error
	for _, list := range f.Lists {
		pods, err := f.Pods(list)
		if err != nil {
			return nil, err
		}
		for i, policy := range Policies() {
			cells = append(cells, Cell{List: list, Policy: policy, At100: make([]float64, len(seeds)), Published: published[list][i]})
			at := cells[len(cells)-1].At100
			for k, seed := range seeds {
				work = append(work, func() error {
					curve, err := Experiment{Cluster: f.Cluster, Pods: pods, Policy: policy, Seed: seed}.Run(ctx)
					if err != nil {
						return err
					}
					if at[k] = curve.At100; at[k] == 0 {
						return fmt.Errorf("openb: %s, seed %d: no arrival has a demand of 100 %%: the cluster is too small for the experiment", f.Path(list), seed)
					}
					return nil
				})
			}
		}
	}
	var workers sync.WaitGroup
	next := make(chan func() error)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for do := range next {
				if err := do(); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, do := range work {
		if ctx.Err() == nil {
			next <- do
		}
	}
	close(next)
	workers.Wait()
	for _, c := range cells {
		slices.SortFunc(c.At100, cmp.Compare[float64])
	}
	return cells, context.Cause(ctx)
}

// published are the ranges by pod list, in the order of Policies.
var published = map[string][6][2]float64{
	"cpu250":     {{79.5, 80.6}, {82.7, 84.0}, {87.1, 88.7}, {87.2, 89.0}, {90.8, 91.5}, {92.8, 93.8}},
	"default":    {{85.9, 86.8}, {90.3, 91.0}, {90.6, 92.8}, {91.1, 92.6}, {92.6, 93.0}, {95.1, 95.4}},
	"gpushare40": {{84.3, 85.2}, {89.1, 89.5}, {88.4, 90.6}, {88.7, 90.5}, {91.0, 91.7}, {93.8, 94.1}},
	"gpuspec33":  {{83.5, 84.3}, {79.4, 80.3}, {80.8, 81.5}, {81.5, 82.6}, {80.0, 80.8}, {87.5, 88.1}},
	"multigpu50": {{80.0, 82.6}, {94.4, 95.1}, {95.3, 96.1}, {95.5, 96.4}, {95.4, 95.9}, {96.9, 97.3}},
}
