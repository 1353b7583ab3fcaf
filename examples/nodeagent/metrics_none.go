// SPDX-License-Identifier: Apache-2.0

//go:build nometrics

package main

import (
	"net/http"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
)

// metrics of a program that was built without any.
type metrics struct{}

func newMetrics(string) *metrics              { return &metrics{} }
func (*metrics) observer() nodeagent.Observer { return nodeagent.Observer{} }
func (*metrics) watch(*nodeagent.Agent)       {}

// ServeHTTP says why there is nothing.
func (*metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this program was built without metrics (tag nometrics)", http.StatusNotFound)
}
