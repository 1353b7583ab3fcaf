// SPDX-License-Identifier: Apache-2.0

// Package fsnotify implements file.Hinter with change notifications of the operating system,
// through github.com/fsnotify/fsnotify (inotify on Linux).
//
//	src, err := file.New(file.Config{
//		Path:    "/etc/pods",
//		Decoder: dec,
//		Hinter:  fsnotify.Hinter{},
//	})
//
// The package is separate from package file, so that package file does not depend on the fsnotify
// library.
//
// For a folder, the folder itself is watched. For a single file, its folder is watched, because a
// file renamed over the path is a new file. If the path does not exist, the nearest existing parent
// folder is watched until the path appears. Each watch has a goroutine in this package and a
// goroutine in the library. Both end before the channel of hints is closed.
//
// Unlike the kubelet's watch (1.36), the Hinter survives the removal and re-creation of the folder,
// and detects an atomic writer's swap of "..data". Its events are only hints to scan. It does not
// detect writes through symbolic links to files outside the folder; the source finds such writes
// within its Period.
package fsnotify
