// SPDX-License-Identifier: Apache-2.0

// Package file is a podconfig.Source of static pods from a folder of manifests, or a single one: what the kubelet's
// --pod-manifest-path does, without ending a healthy pod by accident.
//
//	src, err := file.New(file.Config{
//		Path:    "/etc/pods",
//		Decoder: &manifest.Decoder{NodeName: "edge-17", Strict: true},
//		Hinter:  fsnotify.Hinter{}, // package podconfig/file/fsnotify; without it files are polled
//		Problem: func(path string, err error) {
//			if err != nil {
//				log.Println(err) // one line, once per problem
//			}
//		},
//	})
//	if err != nil {
//		return err
//	}
//	return podconfig.Run(ctx, store, queue.Push, src)
//
// # The caller's duties
//
//  1. Give the same Path after a restart: a file's absolute path is part of its pod's UID.
//  2. Give each Source to one Run. To drive it without Run, call Scan from one goroutine, again at Result.Recheck.
//  3. Return from Problem and the Decoder's functions; the source waits for them.
//
// # What is read
//
// Every file of the folder, in the order of their names, but for those whose name begins with a dot and what editors
// leave ("web.yaml~"); one pod each. Folders in it, FIFOs, devices, loops of links and what is no valid manifest is
// reported and otherwise ignored. Links are followed. Of two files with pods of one name the one that ran already, else
// the first in order counts, and the other is reported; when that one is gone, the other counts from the same moment.
//
// # What happens to the pod of a file
//
//	           complete and valid                  valid, other content
//	(no file) ────────────────────> pod of the file ──────────────────> pod of the new content
//	                                  │        ▲
//	     invalid, unreadable, open    │        │ valid again,
//	     for writing, folder          ▼        │ or back in time
//	     unreadable, just gone     the last good pod
//	                                  │
//	                                  ▼ file gone for the debounce, folder gone for ten times that
//	                               (no pod)
//
// A file that was renamed is another file, so its pod ends and one with another UID begins, in one change; unless the
// manifest holds a uid: then the pod goes on and is updated. Removing a file whose last content was bad ends the pod of
// its last good one. Nothing is kept over a restart of the agent: a file that is bad at the start has no pod. While a
// file is half-written at the start the first snapshot waits, for a second at most.
//
// # When it looks
//
// Hints only say when to look: the files must have been quiet for the debounce (100 ms; at most 1 s under a constant
// stream), then all of them are compared with what is known by device, inode, size and times, and read if they differ.
// After the last hint of a burst there are glances first, 2, 10 and 25 ms after it: they take new files, of which the
// kernel says that nobody has them open for writing (on Linux, by asking for a lease). So a new pod waits a few
// milliseconds, a changed one 100 ms, and a removed one 102 ms. A file that is open for writing is left alone as long as it goes on
// changing and 5 s more. Without hints there is a look every period (20 s).
//
// Run is one goroutine, the caller's; the Hinter's have ended when Run returns. Everything runs in a testing/synctest
// bubble, with a Hinter that does.
//
// # Differences from the kubelet (1.36)
//
//   - A file that becomes invalid keeps its last good pod, also in a folder; Config.DropInvalid is the kubelet's way.
//   - A folder that cannot be read, or a path that is neither folder nor file, changes nothing. The kubelet reads it as
//     empty, as it does with a folder whose name is a pattern.
//   - A path that goes missing keeps its pods for a second, and is empty after that. Missing at the start it is empty
//     after that second, too; the kubelet says so at once.
//   - Of two files with one pod name the one that ran already stays, else the first wins, and the other is reported; in
//     the kubelet, the last in sort order wins silently, so that a copy beside a manifest takes its pod over.
//   - What editors leave (x~, #x#, .bak, .orig, .rej, .swp, .swx, .tmp) is not read (kubernetes#136962).
//   - Events are only hints: no state of its own is kept per event, so nothing flaps.
//   - Files are examined before they are opened, and opened without blocking.
//   - What changed is sent when it changes; a snapshot of everything, only at first. The kubelet sends one every period.
//   - The path is made absolute and is not followed for the pods' identity.
//
// # Differences from the contract's sketch
//
//   - New returns an error.
//   - The single steps are exported: Scan, and Glance, which is new. The Hinter's contract says how a watch ends.
package file
