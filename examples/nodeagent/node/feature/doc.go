// SPDX-License-Identifier: Apache-2.0

// Package feature defines how a node is extended: the functions of a Feature, the per-pod Table in
// which features keep facts, and the Host that gives features access to the node.
//
// A feature is a value of type Feature, usually returned by a constructor in the feature's own
// package. A program adds features to a node with node.Options.Features. The Example shows a
// complete feature.
//
// # The record of a pod
//
// A Table has one record per pod UID. The record holds the newest version of the pod, its Entry
// (admitted, held or refused) and the slots of all features. The node deletes the record when no
// source lists the pod and the pod workers have forgotten the pod. The values of the pod's slots are
// deleted with the record, except the values of lasting slots (NewLastingSlot).
//
// # Goroutines
//
// The node's loop is one goroutine, which calls Check, ConfigUpdated, Housekeep and the methods of
// the Gate. The worker goroutine of a pod calls the functions of Hook, Stopped, Published and
// Ended, one call at a time for each pod. For a refused pod without a worker, the loop calls
// Published and Ended. The node holds no lock during any of these calls.
//
// # Design decisions
//
//   - Feature is a struct of functions instead of a set of optional interfaces. A misspelled method
//     of an optional interface compiles and is never called. A misspelled field does not compile.
//   - A feature gets the Host, which holds the shared parts and the table. A feature never gets the
//     node itself.
package feature
