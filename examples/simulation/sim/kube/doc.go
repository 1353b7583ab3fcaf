// SPDX-License-Identifier: Apache-2.0

// Package kube has the plug-ins of kube-scheduler 1.36 for package sim. Each plug-in is written from
// the documented behaviour and keeps the weights, the order and the reasons of kube-scheduler.
//
//	p := kube.Profile()
//	p.Score = append(p.Score, sim.WeightedScore{Score: mine{}, Weight: 5})
//
// All plug-ins are values without state, and may be shared by simulations that run at the same time.
//
// # Not here
//
// Volumes, resource claims, scheduling gates, node-declared features, and the default spread
// constraints, which need Services.
package kube

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// requirement is a requirement of a label selector on a single value.
func requirement(key string, operator metav1.LabelSelectorOperator, value string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}}
}
