// SPDX-License-Identifier: Apache-2.0

// Package checkpoint keeps the last desired state of a node on its disk, so that a node that boots while its sources
// cannot be reached runs what it ran before (kubernetes#489, #30065).
//
//	seed, err := checkpoint.Read(path, 0)
//	if err != nil {
//		log.Warn("Starting without a checkpoint", zap.Error(err)) // names the file; the seed is empty
//	}
//	store, err := podconfig.NewStore(podconfig.StoreOptions{Seed: seed})
//	...
//	for _, u := range store.Replay() { // the consumer hears of the seed as of any pods
//		queue.Push(ctx, u)
//	}
//	keeper, err := checkpoint.New(checkpoint.Options{Path: path, Pods: store})
//	...
//	go func() { ended <- keeper.Run(ctx) }()
//	err = podconfig.Run(ctx, store, keeper.Tee(queue.Push), sources...)
//
// # What a seed is
//
// The pods of a checkpoint are there from the start and run until their source says otherwise. They never count as the
// source being ready (podconfig.Readiness): nothing that no source has is removed on their account. With the source's
// first snapshot they are its pods like any others: those that are not in it leave as REMOVE, the others are told only as
// far as they changed. A pod that ended is in the checkpoint with its last phase; to run none twice is the consumer's
// job, as it is with an API server.
//
// # The caller's duties
//
//  1. Give the file a folder of its own that only the agent can write to, and each agent its own file. Whoever can write
//     the file decides what the node runs; a file that others may write is refused.
//  2. Go on without a seed when Read returns an error, and say so: the error holds nothing of the pods.
//  3. Run Run in a goroutine, and wait for it.
//
// # What is written, and when
//
// One file of mode 0600, for pods hold secrets: a header with version, length and SHA-256, and a JSON object per pod, with
// its status, without managedFields. A new content is written beside the old one, put on the disk (fsync), gets the name
// (rename), and the name is put on the disk. So a crash of the agent or the machine leaves the old content or the new
// one. A full disk keeps the old. A file that is torn, corrupt, foreign or from another version is reported as that, and
// none of it is used.
//
// Nothing is polled. A change is written within Delay (1 s), with all that came meanwhile; one of statuses alone within
// StatusDelay (1 min), unless a pod ended. Content that is on the disk already is not written again. A crash loses what was
// not written: a pod that was just added is not started, and one that was just removed is started and removed again when
// its source answers.
//
// # Goroutines
//
// None but the caller's: Run writes in the goroutine that called it, and everything but the disk runs in a testing/synctest
// bubble.
package checkpoint
