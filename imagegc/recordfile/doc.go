// SPDX-License-Identifier: Apache-2.0

// Package recordfile stores the image ages of an imagegc.Collector in a file, so that a restart of
// the agent does not reset them.
//
//	gc, err := imagegc.New(imagegc.Options{Store: recordfile.New("/var/lib/agent/images.json"), …})
//
// The file is JSON and contains IDs and times but no secrets. At any moment, even after a power
// failure, the file holds either the complete old or the complete new content. For an unreadable
// file, Load returns an error with its path. The collector then continues without saved ages, and
// the next Save replaces the file.
package recordfile
