// SPDX-License-Identifier: Apache-2.0

// Package recordfile keeps what an imagegc.Collector knows of the ages of images in a file, so that a restart of the
// agent does not make every image a new one.
//
//	gc, err := imagegc.New(imagegc.Options{Store: recordfile.New("/var/lib/agent/images.json"), …})
//
// The file is JSON and holds no secret: IDs and times. At any moment, also after a power cut, it is the old or the new
// one, whole. A file that cannot be read is an error of Load that names it; the collector goes on without, and the next
// Save replaces it.
package recordfile
