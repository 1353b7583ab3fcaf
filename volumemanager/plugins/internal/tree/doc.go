// SPDX-License-Identifier: Apache-2.0

// Package tree removes and walks folders that containers may write to: it never follows a link and never enters
// another mount, also not a bind mount of the same disk and also not when a container swaps names meanwhile.
package tree
