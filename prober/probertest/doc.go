// SPDX-License-Identifier: Apache-2.0

// Package probertest is a prober.Handler in memory, whose containers behave as a test tells them, in virtual time or
// real.
//
//	h := &probertest.Handler{}
//	h.Set("default/web", "web", prober.Liveness, probertest.Fail())
//	p, err := prober.New(prober.Options{Handler: h})
//	// … run it, then look at h.Calls()
//
// It makes no connections and runs no commands: what a probe's handler says (its path, port or command) has no effect.
// What it does otherwise is what prober.Handler promises.
package probertest
