// SPDX-License-Identifier: Apache-2.0

// Package fsnotify is the file.Hinter that hears of changes from the operating system, through
// github.com/fsnotify/fsnotify (inotify on Linux).
//
//	src, err := file.New(file.Config{
//		Path:    "/etc/pods",
//		Decoder: dec,
//		Hinter:  fsnotify.Hinter{},
//	})
//
// It is a package of its own so that package file, which works without, needs nothing but this module.
//
// A folder is watched itself, a single file by the folder it is in, because a file that is renamed over is another one.
// Where there is nothing yet, the nearest folder above is watched until there is. Each watch is one goroutine of this
// package and one of the library's; both end before the channel of hints is closed.
//
// Unlike the kubelet's watch (1.36) it survives that the folder is removed and made anew, sees an atomic writer's swap of
// "..data", and what it says is only a hint to look. It does not see writes to files that symbolic links of the folder
// lead to elsewhere; the source finds those within its Period.
package fsnotify
