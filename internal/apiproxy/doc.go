// SPDX-License-Identifier: Apache-2.0

// Package apiproxy is a proxy between an API server and its clients, for tests. According to its rules the proxy delays
// requests, answers 409, 429 or 500, hangs, and cuts connections. It keeps a journal of all requests.
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
// The proxy listens on loopback, and speaks HTTP/2 if it has a certificate. Clients therefore see the same behaviour as
// from the API server: many requests on one connection, watches as streams, resets.
//
// # Rules
//
// All matching rules apply to a request, in the order of their injection. The request waits for the sum of their
// delays. The first rule with an outcome other than Forward decides; without such a rule the request goes to the
// server. A rule with Times counts matching requests on arrival.
//
// # The caller's duties
//
//  1. Close the proxy; apiservertest closes the proxy at the end of the test.
//  2. Reset the journal in long tests, because the journal keeps every body.
//
// # Goroutines
//
// One for the listener, and the goroutines of package net/http for each connection and request. Close waits for all
// requests.
//
// # What it does not do
//
// If the server dies, an HTTP/2 client that waits for an answer sees a reset connection, but a running watch only ends
// its stream. Use CutConnections to reset such connections. Names and values of headers are not recorded.
package apiproxy
