// SPDX-License-Identifier: Apache-2.0

//go:build noprofiling

package main

import "net/http"

// recordHeap does nothing: without profiles, the linker turns the records off.
func recordHeap(bool) {}

// profile answers with 404 and names the build tag.
func profile(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this program was built without profiles (tag noprofiling)", http.StatusNotFound)
}
