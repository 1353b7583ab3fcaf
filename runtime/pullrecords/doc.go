// SPDX-License-Identifier: Apache-2.0

// Package pullrecords keeps records of the credentials that have pulled each image. A pod can then use an image on the
// node only if its own credentials could have pulled the image, as in the kubelet (KEP-2535, 1.36).
//
//	records, err := pullrecords.Open(pullrecords.Options{Dir: "/var/lib/gw/pulls"})
//	if err != nil {
//		return err
//	}
//	manager, err := runtime.New(runtime.Options{…, Keyring: keyring.Find, PullRecords: records})
//
// An image that was pulled without credentials, or with credentials of the node, is for all pods. An image that was
// pulled with a Secret is for pods with this Secret, also after a change of its content, and for pods with the same
// credentials in another Secret. For any other pod, the image is pulled again: the registry decides. An image without
// a record was on the node before; Options.Policy decides about such images.
//
// # The caller's duties
//
//  1. Call Prune after each collection of images, with all images that are left.
//  2. Give each folder to a single process.
//
// The package has no goroutine. A record has salted hashes of credentials, no credentials, and is readable only by its
// owner. A record is on the disk before the pull counts as done. A pull that was interrupted leaves a note of the name,
// because the runtime may have completed the pull: until a pull of the name succeeds, an image without a record that
// came under this name is not for all pods.
//
// # Limits
//
// A note has the name of the pull. While the pull is in progress, and after an interrupted pull, the image may be on the
// node without a record. A pod can use it then under another name, such as its digest, as with the kubelet. The policy
// AlwaysVerify has no such gap.
//
// # Differences from the kubelet (1.36)
//
//   - A record stays as long as its image. The kubelet deletes records of images that a collection did not look at; an
//     image without a record then counts as preloaded, and is for all pods.
//   - An image that was on the node before a pull, without a record, stays preloaded after the pull, whatever
//     credentials the pull had.
//   - A failed or interrupted pull does not delete the note of an earlier interrupted pull.
//   - Hashes are salted, so equal credentials are not recognizable from outside.
package pullrecords
