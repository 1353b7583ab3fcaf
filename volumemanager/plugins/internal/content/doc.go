// SPDX-License-Identifier: Apache-2.0

// Package content is the common part of configMap, secret, downwardAPI and projected volumes:
// selecting files from API objects, and a folder with all files of the old version or all files of
// the new version, on a tmpfs for secret content.
package content
