// SPDX-License-Identifier: Apache-2.0

//go:build !noprofiling

package main

import (
	"net/http"
	"net/http/pprof"
	"strings"
)

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
