// SPDX-License-Identifier: Apache-2.0

// Package file is a podconfig.Source of static pods from a folder of manifests or a single
// manifest, like the kubelet's --pod-manifest-path. It never ends a healthy pod because of a faulty
// or briefly missing file.
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
//  1. Use the same Path after a restart: the absolute path of a file is part of its pod's UID.
//  2. Pass each Source to a single Run. To work without Run, call Scan from a single goroutine, and
//     again at Result.Recheck.
//  3. Return promptly from Problem and from the Decoder's functions: the source waits for them.
//
// # Files read
//
// The source reads every file of the folder in the order of file names, with a single pod per file.
// It skips names with a leading dot and editors' backup files ("web.yaml~"). Subfolders, FIFOs,
// devices, loops of links and invalid manifests are reported and otherwise ignored. Links are
// followed. If two files hold pods of the same name, the pod that already runs is kept, else the
// pod of the first file in order, and the other file is reported. When the winning file disappears,
// the other file takes its place at the same moment.
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
// A renamed file is a new file: its pod ends and a pod with another UID starts, in a single change.
// If the manifest holds a uid, the pod continues and is updated instead. Removing a file with
// invalid content ends the pod of its last valid content. No state survives a restart of the agent:
// a file invalid at the start has no pod. While a file is half-written at the start, the first
// snapshot is delayed by at most a second.
//
// # Times of scans
//
// A hint only triggers a scan. A scan begins after the files have been quiet for the debounce (100
// ms), at the latest after 1 s of constant hints. It compares the device, inode, size and times of
// all files with the known values, and reads files with different values. Before the scan, 2, 10
// and 25 ms after the last hint of a burst, the source glances at new files. A glance takes only
// files without a writer, as reported by the kernel (on Linux through a lease). A new pod thus
// waits a few milliseconds, a changed pod 100 ms, and a removed pod 102 ms. A file open for writing
// is left alone while it changes and for 5 s more. Without hints, the source scans every period (20
// s).
//
// The source runs in a testing/synctest bubble, given a Hinter without real I/O.
//
// # Goroutines, and file systems without an answer
//
// Run makes decisions in the caller's goroutine. A second goroutine makes the calls to the disk,
// because a call on a network file system or FUSE may never return, and no context can end it. If a
// call takes longer than 250 ms, or 20 ms after another hung call in the same scan, the goroutine
// is abandoned with its thread, and the scan continues with the next path. Other manifests thus
// load. The hung path is reported and keeps its last valid pod. The source checks once a second
// whether the call has returned, and only then calls again. At most 1,000 hung calls are abandoned;
// further files are not read and are reported. A hung folder changes nothing.
//
// Run returns within 100 ms after ctx ends. All goroutines of the source and the Hinter have ended
// by then, except for hung calls, which end without effect when the file system answers.
//
// # Differences from the kubelet (1.36)
//
//   - A file that becomes invalid keeps its last valid pod, also in a folder. Config.DropInvalid
//     selects the kubelet's behaviour.
//   - An unreadable folder, or a path that is neither folder nor file, changes nothing. The kubelet
//     treats both as empty, like a folder with a pattern as its name.
//   - A missing path keeps its pods for a second, and is empty afterwards. The same delay applies
//     to a path missing at the start; the kubelet has no delay.
//   - If two files hold pods of the same name, the running pod stays, else the first file wins, and
//     the other file is reported. In the kubelet the last file in sort order wins silently, so that
//     a copy beside a manifest replaces its pod.
//   - Editors' backup files (x~, #x#, .bak, .orig, .rej, .swp, .swx, .tmp) are not read
//     (kubernetes#136962).
//   - Events are only hints without a state of their own, so that pods do not flap.
//   - Files are examined before they are opened, and opened without blocking. A hung file system
//     delays neither other manifests nor shutdown.
//   - Only the first change is a snapshot; later changes carry only the differences. The kubelet
//     sends a snapshot every period.
//   - The path is made absolute, and links are not resolved for the pods' identity.
//
// The steps Scan and Glance are exported, so that a program can drive the source without Run.
package file
