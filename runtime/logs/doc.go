// SPDX-License-Identifier: Apache-2.0

// Package logs reads the log files of containers, and keeps them from growing:
// the kubelet's log reader and container log manager as a library.
//
//	id, err := logs.Choose(&pod.Status, "main", logs.Current) // the current instance
//	opts, err := logs.NewOptions(&v1.PodLogOptions{Follow: true}, time.Now())
//	result, err := logs.Read(ctx, logs.Request{
//		Path:    container.LogPath, // of that instance's runtime.ContainerStatus
//		Options: opts,
//		Stdout:  w,
//		Stderr:  w,
//		Running: logs.Running(rt, pod.UID, id),
//	})
//
//	rotator, err := logs.NewRotator(logs.RotatorOptions{
//		Reopener: rt, // a cri.Backend
//		Logs:     logs.RunningLogs(rt),
//	})
//	go rotator.Run(ctx)
//
// # The caller's duties
//
//  1. Pass only paths from a backend, never from a user.
//  2. Run a single Rotator for each folder of logs.
//  3. Remove the logs of pods that are gone: runtime.Manager.GarbageCollect, or Rotator.Clean.
//
// # Goroutines
//
// Read starts no goroutine. Rotator.RotateAll starts a goroutine for each log to rotate, at most
// two at a time, and waits for all of them.
//
// # Files
//
//	0.log                     written by the runtime; 0 is the restart count
//	0.log.20260701-120000     rotated last, not compressed
//	0.log.20260701-113000.gz  rotated before that
//	0.log.20260701-113000.gz.tmp  during the compression; removed after an interruption
//
// # Differences from the kubelet
//
//   - Read includes rotated files, which also count for tail (kubernetes#59902). Follow misses no
//     file if a log is rotated several times meanwhile.
//   - Line pieces are joined, up to 256 KiB, so that stdout and stderr do not mix within a line.
//     Tail counts a joined line once. Tail ignores lines of an unwanted stream, so that tail works
//     with a single stream.
//   - Follow polls for changes instead of watching the folder; see Request.Poll.
//   - An interrupted rotation is repaired at the next look, not at the next rotation. A full disk
//     does not prevent a rotation. Two rotations within a second get different names.
//   - Renaming a log back never replaces a log file that was reopened after all.
//   - Compressed files keep their times.
package logs
