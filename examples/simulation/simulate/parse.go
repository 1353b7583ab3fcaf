// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/examples/simulation/sim/openb"
)

// policyNames are the names of all schedulers.
func policyNames() []string {
	names := []string{kube.Profile().Name, kube.MostAllocatedProfile().Name}
	for _, p := range openb.Policies() {
		names = append(names, string(p))
	}
	return names
}

// profileOf returns a scheduler. pods are the workload, from which FGD takes its typical pods.
func profileOf(name string, pods []openb.Pod) (sim.Profile, error) {
	for _, p := range []sim.Profile{kube.Profile(), kube.MostAllocatedProfile()} {
		if strings.EqualFold(p.Name, name) {
			return p, nil
		}
	}
	policy, err := openb.ParsePolicy(name)
	if err != nil {
		return sim.Profile{}, fmt.Errorf("-policy %s: want %s", name, strings.Join(policyNames(), ", "))
	}
	return policy.Profile(pods)
}

// amounts parses "cpu=1,memory=2Gi,gpus=0.5,priority=1".
func amounts(flag, text string) (list v1.ResourceList, gpus float64, priority int32, err error) {
	list = v1.ResourceList{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		switch {
		case !found || key == "":
			err = fmt.Errorf("want NAME=AMOUNT")
		case key == "gpus":
			gpus, err = strconv.ParseFloat(value, 64)
		case key == "priority":
			var n int64
			n, err = strconv.ParseInt(value, 10, 32)
			priority = int32(n)
		default:
			var q resource.Quantity
			if q, err = resource.ParseQuantity(value); err == nil && q.Sign() < 0 {
				err = fmt.Errorf("negative")
			}
			list[v1.ResourceName(key)] = q
		}
		if err != nil {
			return nil, 0, 0, fmt.Errorf("%s: %q: %w", flag, pair, err)
		}
	}
	return list, gpus, priority, nil
}

// cluster returns equal nodes.
func cluster(count int, text string) ([]*v1.Node, error) {
	if count < 1 {
		return nil, fmt.Errorf("-nodes %d: want at least 1", count)
	}
	list, gpus, _, err := amounts("-node", text)
	if err != nil {
		return nil, err
	}
	if gpus < 0 || gpus != math.Trunc(gpus) || gpus > 1024 {
		return nil, fmt.Errorf("-node: gpus=%v: want a whole number", gpus)
	}
	list[sim.LabelGPUs] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	nodes := make([]*v1.Node, count)
	for i := range nodes {
		nodes[i] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		nodes[i].Status.Allocatable = list
	}
	return nodes, nil
}

// kindOfPod returns the shape of a pod.
func kindOfPod(text, image string) (*sim.Shape, error) {
	list, gpus, priority, err := amounts("-pods", text)
	if err != nil {
		return nil, err
	}
	gpu := sim.GPURequest{Count: int(math.Ceil(gpus)), Milli: 1000}
	if gpus < 1 {
		gpu.Milli = int64(math.Round(gpus * 1000))
	} else if gpus != math.Trunc(gpus) {
		return nil, fmt.Errorf("-pods: gpus=%v: want whole GPUs, or a share of a single GPU", gpus)
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "main", Image: image}}}}
	pod.Spec.Containers[0].Resources.Requests = list
	shape, err := sim.NewShape(pod, gpu)
	if err != nil {
		return nil, fmt.Errorf("-pods %s: %w", text, err)
	}
	return shape, nil
}
