// SPDX-License-Identifier: Apache-2.0

package podconfig

// Shared returns o for a store as that of Follow, whose updates carry the stored pods.
func Shared(o StoreOptions) StoreOptions {
	o.Shared = true
	return o
}
