// SPDX-License-Identifier: Apache-2.0

// Package openb reads the public GPU cluster traces openb (Alibaba, 2023), and repeats the experiment
// of the paper "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
// Descent" (USENIX ATC 2023) with its six policies.
//
//	cluster, err := openb.ReadNodes(file, "nodes.csv")
//	pods, err := openb.ReadPods(file, "pods.csv")
//	curve, err := openb.Experiment{Cluster: cluster, Pods: pods, Policy: openb.FGD, Seed: 42}.Run(ctx)
//	fmt.Println(curve.At100)
//
// The traces are in the repository hkust-adsl/kubernetes-scheduler-simulator, under data/csv, and are
// not a part of this package.
//
// # The experiment
//
// The pods of a trace arrive in a random order, until the demand for GPUs is 130 % of the cluster.
// Pods do not end. A pod that does not fit is given up. The result is the share of allocated GPUs at
// the arrived demand of 100 %. Seeds are used as the paper's program uses them, but no recorded
// arrival order was compared. The order of nodes with equal scores is not reproducible there, so
// distributions over seeds are compared.
package openb
