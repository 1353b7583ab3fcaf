// SPDX-License-Identifier: Apache-2.0

// Package checkpoint stores the pods of a node on its disk. A node that boots while its sources are
// unreachable then runs the same pods as before (kubernetes#489, #30065).
//
//	seed, err := checkpoint.Read(path)
//	if err != nil {
//		log.Warn("Starting without a checkpoint", zap.Error(err)) // contains the path; the seed is empty
//	}
//	store, err := podconfig.NewStore(podconfig.StoreOptions{Seed: seed})
//	...
//	for _, u := range store.Replay() { // the consumer receives the seed like other pods
//		queue.Push(ctx, u)
//	}
//	keeper, err := checkpoint.New(checkpoint.Options{Path: path, Pods: store})
//	...
//	go func() { ended <- keeper.Run(ctx) }()
//	err = podconfig.Run(ctx, store, keeper.Tee(queue.Push), sources...)
//
// # The seed
//
// The pods of a checkpoint are known from the start and run until their source removes or changes
// them. They never make a source ready (podconfig.Readiness), so that no absent pod is removed
// because of a checkpoint. The source's first snapshot treats them like any other pods: an absent
// pod is sent as REMOVE, and only changed pods are sent as updates. A terminated pod is in the
// checkpoint with its last phase. The consumer must not run it again, as with pods of an API
// server.
//
// # The caller's duties
//
//  1. Give the file a separate folder writable only by the agent, and give each agent a separate
//     file. A process with write access to the file controls the pods of the node; Read refuses a
//     file that other users may write.
//  2. When Read returns an error, log the error and continue without a seed. The error contains no
//     data of pods.
//  3. Run Run in a goroutine, and wait for its end.
//
// # Format and times of writes
//
// A checkpoint is a single file of mode 0600, because pods contain secrets. It has a header with
// version, length and SHA-256, and a JSON object per pod, with its status, without managedFields.
// New content is written to a temporary file and synced (fsync). Then the file is renamed, and the
// folder is synced. A crash of the agent or the machine thus leaves the complete old or the
// complete new content. A full disk keeps the old content. A torn, corrupt or foreign file, or a
// file of another version, is reported as such and not used at all.
//
// There is no polling. A change is written within a second, together with all changes in the
// meantime. Status changes alone are written within a minute, unless a pod has
// terminated. Unchanged content is not written again. A crash loses unwritten changes: a pod just
// added is not started, and a pod just removed is started and then removed again by its source.
//
// # Goroutines
//
// The package starts no goroutine. Run writes in the goroutine of its caller. Everything except the
// disk runs in a testing/synctest bubble.
package checkpoint
