// SPDX-License-Identifier: Apache-2.0

// Package apiproxy stands between an API server and its clients, for tests: it is
// slow, answers 409, 429 or 500, hangs and cuts connections where a rule says so,
// and keeps a journal of what was asked.
//
//	proxy := server.Proxy(t) // of an apiservertest.Server
//	config := server.NodeConfig("n1")
//	config.Host = proxy.URL
//	…
//	patches := func(r apiproxy.Request) bool { return r.Verb == "patch" && r.Subresource == "status" }
//	remove, err := proxy.Inject(apiproxy.Rule{Match: patches, Then: apiproxy.Answer, Code: 429, RetryAfter: time.Second})
//	…
//	remove()
//	err = proxy.Wait(ctx, 250, func(c apiproxy.Call) bool { return patches(c.Request) && c.Code == 200 })
//	for _, call := range proxy.Calls(nil) { … call.Name, call.Body, call.Done.Sub(call.At) … }
//
// It listens on loopback, with HTTP/2 where it has a certificate, so that what its
// clients get to see is what the API server would show them: many requests on one
// connection, watches as streams, resets.
//
// # Rules
//
// A request gets the rules that match it in the order of their injection. It waits
// for the sum of their delays, and the first that is not Forward says what becomes
// of it; without one it goes to the server. A rule with Times is spent by the
// requests it was for, when they come.
//
// # The caller's duties
//
//  1. Close the proxy; apiservertest does it when the test ends.
//  2. Reset the journal in long tests: it keeps every body.
//
// # Goroutines
//
// One for the listener and those of package net/http for each connection and
// request. Close waits for all requests.
//
// # What it does not do
//
// An HTTP/2 client whose server dies sees its connection reset if it was waiting
// for an answer, but a watch that had begun only ends its stream; CutConnections
// is there for the rest. Names and values of headers are not recorded.
package apiproxy
