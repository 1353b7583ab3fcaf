// SPDX-License-Identifier: Apache-2.0

//go:build nometrics

package main

import (
	"net/http"
	"time"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
)

// metrics is empty in a program built without metrics.
type metrics struct{}

func newMetrics(string) *metrics           { return &metrics{} }
func (*metrics) observer() node.Observer   { return node.Observer{} }
func (*metrics) watch(*node.Agent)         {}
func (*metrics) evicted(string, time.Time) {}

func (*metrics) changedCgroup(string, time.Duration)    {}
func (*metrics) ranPlugin(string, time.Duration, error) {}

func (m *metrics) serveProbes(w http.ResponseWriter, r *http.Request) { m.ServeHTTP(w, r) }

// ServeHTTP answers with 404 and names the build tag.
func (*metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this program was built without metrics (tag nometrics)", http.StatusNotFound)
}
