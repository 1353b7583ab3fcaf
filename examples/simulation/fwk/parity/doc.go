// SPDX-License-Identifier: Apache-2.0

// Package parity compares the placements of package fwk with those of kube-scheduler's own engine. It
// has tests only, in a module of its own, because k8s.io/kubernetes is no library.
package parity
