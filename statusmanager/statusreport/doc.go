// SPDX-License-Identifier: Apache-2.0

// Package statusreport sends the latest status of each pod through a slow or broken uplink, for agents
// whose cluster is a message bus or a web service instead of an API server.
//
//	reports, err := statusreport.New(statusreport.Options{Send: send})
//	agent, err := node.New(node.Options{Status: reports.Set, …})
//	go reports.Run(ctx)
//
// Statuses that change during an outage coalesce: after the outage, one report per pod is sent, in
// the order in which the pods changed first. The report of a new pod replaces a waiting report of
// an earlier pod with the same name. A failed report goes to the end of the queue, so that a report
// that the uplink refuses does not stop the others.
//
// # The caller's duties
//
//  1. Call Run, and make Send return at the end of its context.
//  2. Call Gone when a pod does not exist any more, if the uplink shall know.
//  3. Call Set for all pods after the uplink has lost its data.
//
// Run is the only goroutine. Nothing is stored on disk: after a start of the agent, the statuses of the
// running pods are set again.
package statusreport
