// SPDX-License-Identifier: Apache-2.0

//go:build !noprofiling

package main

import (
	"net/http"
	"net/http/pprof"
	goruntime "runtime"
	"strings"
)

// recordHeap turns records for the heap profile on, with the rate of Go's runtime, or off. The records
// take up to 1.5 MiB.
func recordHeap(on bool) {
	goruntime.MemProfileRate = 0
	if on {
		goruntime.MemProfileRate = 512 << 10
	}
}

// profile serves the profiles of net/http/pprof.
func profile(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}
