// SPDX-License-Identifier: Apache-2.0

// Package podwatch is a podconfig.Source of the pods that an API server has bound to a node. It
// uses client-go's reflector: each list is a snapshot, and each event is a change of a single pod.
//
//	clients, err := kubernetes.NewForConfig(config) // protobuf saves most of the decoding
//	...
//	src, err := podwatch.New(podwatch.Config{
//		Pods:     clients.CoreV1().Pods(""),
//		NodeName: "edge-17",
//		NodeKnown: func(ctx context.Context) error { // optional
//			select {
//			case <-registered:
//				return nil
//			case <-ctx.Done():
//				return ctx.Err()
//			}
//		},
//		Logger: log,
//	})
//	if err != nil {
//		return err
//	}
//	return podconfig.Run(ctx, store, queue.Push, src)
//
// # The caller's duties
//
//  1. Pass each Source to a single Run.
//  2. Configure the client for long connections. rest.Config.Timeout must be 0, because any other
//     value ends every watch. Set rest.Config.WarningHandler, because client-go's default writes to
//     stderr.
//  3. Return promptly from Problem: the source waits for it. Failures of the server are reported to
//     Problem and never end Run.
//
// # Events and changes
//
//	first list, or watch-list    Snapshot, also without pods: the source is ready
//	event ADDED, MODIFIED        Upsert of the pod
//	event DELETED                Remove of the UID
//	bookmark                     nothing
//	watch ended                  nothing: a new watch continues at the same version
//	connection lost              nothing: all pods stay; the source retries the watch or a list
//	history lost (410)           Snapshot of a new list; its merge yields the missed changes
//
// An event thus costs the work for a single pod, regardless of the number of pods. If the server
// supports watch-lists (Kubernetes 1.34 by default), a list is a stream, and neither side holds it
// in memory twice.
//
// # Problems
//
// Each kind of problem, an Error with its Verb and Reason, is reported once until its verb succeeds
// again: a list succeeds, or a watch lasts for 5 s. The end of the last problem is reported, too.
// Errors contain neither undecodable answers nor data of pods.
//
// Every request is limited in time: a list, and the initial events of a watch-list, to a minute;
// the opening of a watch to two minutes; a watch to the requested timeout (5 to 10 minutes) plus a
// minute. After a failed round the source waits 0.8 s, then 1.6 s,
// and so on up to 30 s. Each wait is extended randomly by up to its length.
//
// # Goroutines
//
// Run runs in the caller's goroutine. Each watch has an additional goroutine, beside the goroutines
// of the reflector and client-go's streams. All have ended when Run returns, right after the end of
// ctx. Run also waits for a list abandoned by the reflector. The source runs in a testing/synctest
// bubble, given a client without real I/O.
//
// # Differences from the kubelet (1.36)
//
//   - Each change is submitted alone. The kubelet submits the complete list for every event.
//   - The wait for the node uses an event, and ends with ctx. The kubelet polls once per second and
//     cannot be stopped.
//   - Pods of other nodes are dropped if the server ignores the field selector.
//   - A list without a resource version is a bad answer. client-go decodes any JSON object as a
//     list, "{}" as an empty list.
//
// Differences from a plain reflector of client-go (0.37):
//
//   - No log is written to stderr through klog, except for a list of more than ten seconds, whose
//     logger cannot be replaced.
//   - If a server refuses a watch-list, ends it early, or repeats 410, the source retries with
//     backoff instead of without a pause. The end of ctx ends the backoff.
//   - After a watch of less than a second, the next watch begins a second after the beginning of
//     the former.
//   - A request to a hung server is abandoned.
//   - Failures are reported by kind. The reflector reports only some failures, to a process-wide
//     handler.
//
// The back-off between requests is client-go's, without an option.
package podwatch
