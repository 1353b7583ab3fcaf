// SPDX-License-Identifier: Apache-2.0

// Package nodeserver serves the HTTP endpoints of a kubelet: the API server, kubectl and
// metrics-server use them to reach the containers of a node.
//
//	server, err := nodeserver.New(nodeserver.Options{
//		Guard: guard, // authentication and authorization of every request
//		Groups: []nodeserver.Group{
//			nodeserver.Health(nodeserver.Check{Name: "syncloop", Do: agent.Alive}),
//			nodeserver.Pods(agent.Pods),
//		},
//	})
//	if err != nil {
//		return err
//	}
//	defer server.Close()
//
// A Server is an http.Handler. Each group of endpoints is a value of type Group. A request for an
// endpoint of a group that is not in Options.Groups is answered with 404, after the Guard.
//
// The caller's duties:
//
//  1. Serve the Server over TLS, with HTTP/1.1 for the endpoints that upgrade the connection.
//  2. Call Close when the http.Server is closed. An http.Server does not end connections that were
//     upgraded.
//
// Each request is served by the goroutine of the http.Server and by goroutines that have ended when
// ServeHTTP returns. The contexts of all requests end with Close.
package nodeserver
