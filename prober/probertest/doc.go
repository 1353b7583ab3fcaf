// SPDX-License-Identifier: Apache-2.0

// Package probertest is an in-memory prober.Handler. A test sets the behaviour of its containers,
// in virtual or real time.
//
//	h := &probertest.Handler{}
//	h.Set("default/web", "web", prober.Liveness, probertest.Fail())
//	p, err := prober.New(prober.Options{Handler: h})
//	// … run it, then look at h.Calls()
//
// Handler makes no connections and runs no commands, so the path, port or command of a probe has no
// effect. In all other respects Handler keeps the contract of prober.Handler.
package probertest
