// SPDX-License-Identifier: Apache-2.0

// Package apiserver is a podconfig.Source of the pods that an API server has bound to a node, by client-go's reflector: a
// snapshot after each list, and in between one change of one pod per event.
//
//	clients, err := kubernetes.NewForConfig(config) // protobuf saves most of the decoding
//	...
//	src, err := apiserver.New(apiserver.Config{
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
//  1. Give each Source to one Run.
//  2. Give the client what it needs for long connections: rest.Config.Timeout must be 0, for it would end every watch, and
//     rest.Config.WarningHandler should be the caller's, for client-go's writes to stderr.
//  3. Return from Problem; the source waits for it. What the server does is told there, and never ends Run.
//
// # What is told when
//
//	first list, or watch-list    Snapshot, also without pods: the source is ready
//	event ADDED, MODIFIED        Upsert of that pod; package podconfig tells what it means
//	event DELETED                Remove of that UID
//	bookmark                     nothing
//	watch ended                  nothing: a new one begins where it ended
//	connection lost              nothing: all pods stay, and a new watch, or list, is tried
//	history lost (410)           Snapshot of a new list; what was missed comes out of its merge
//
// So an event costs the work of one pod, whatever number of pods there is. Where the server offers it (Kubernetes 1.34 by
// default), a list is a stream, which neither side holds in memory twice.
//
// # Problems
//
// Each kind of problem, an Error with its Verb and Reason, is told once until its verb works again: a list that succeeds,
// a watch that stands for 5 s. When none is left, that is told, too. An answer that cannot be decoded is never repeated in
// an error, nor is anything of a pod.
//
// Every request is bounded: a list, and the first part of a watch-list, by Config.Timeout; the opening of a watch by twice
// that; a watch by what it was asked for (5 to 10 minutes) and that much more. After a failed round the source waits 0.8 s,
// then 1.6 s, and so on up to 30 s, each up to twice as long by chance.
//
// # Goroutines
//
// Run is the caller's. It has one more per watch, and those of the reflector and of client-go's streams; all have ended
// when it returns, at once after ctx's end. A list that the reflector abandons is waited for. Everything runs in a
// testing/synctest bubble, with a client that does.
//
// # Differences from the kubelet (1.36)
//
//   - Changes are told one by one. The kubelet pushes the complete list for every event.
//   - The wait for the node is an event, and ends with ctx. The kubelet looks once per second and cannot be stopped.
//   - Pods of other nodes are left out, if the server does not know the field selector.
//   - A list without resource version is a bad answer. client-go reads any JSON object as a list, "{}" as an empty one.
//
// And from client-go's reflector (0.37), which is used for what it does well:
//
//   - Nothing is written to stderr through klog. (A list of more than ten seconds still is: that logger cannot be chosen.)
//   - A server that refuses a watch-list, or ends it early, or says 410 again and again, is asked at the pace of the
//     backoff, not without pause, and the end of ctx ends that wait.
//   - A watch that did not last for a second is opened again a second after its beginning.
//   - A server that hangs is left.
//   - What fails is reported by its kind; the reflector reports some of it, to a process-wide handler.
//
// # Differences from the contract's sketch
//
//   - New returns an error. NodeSynced is NodeKnown, a function that waits. Backoff is client-go's, without an option.
//     WatchList became WithoutWatchList. Timeout and Problem are new.
package apiserver
