// SPDX-License-Identifier: Apache-2.0

// Package content is what configMap, secret, downwardAPI and projected volumes have in common: choosing files from API
// objects, and a folder, on a tmpfs if they shall not touch the disk, that shows all of the old version or all of the
// new one.
package content
