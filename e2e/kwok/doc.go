// SPDX-License-Identifier: Apache-2.0

// Package kwok is a separate module that pins kwok as a tool, so that users of keelson do not download
// it. ../program.sh builds kwok for make bench-fleet KWOK=1, which measures kwok beside runfleet.
package kwok
