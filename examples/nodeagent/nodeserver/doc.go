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
//	err = server.Serve(ctx, tls.NewListener(listener, config))
//
// A Server is an http.Handler. Each group of endpoints is a value of type Group. A request for an
// endpoint of a group that is not in Options.Groups is answered with 404, after the Guard.
//
// The caller's duties:
//
//  1. Listen with TLS, and offer HTTP/1.1 for the endpoints that upgrade the connection. See
//     NewTLSConfig.
//  2. Without Serve, bound the connections of clients that are not authenticated, and call Close when
//     the http.Server is closed. An http.Server does not end connections that were upgraded.
//  3. Set the logger of k8s.io/klog, which is global. k8s.io/cri-streaming logs the errors of clients
//     there, and not to Options.Logger.
//
// Each request is served by the goroutine of the http.Server, and by goroutines that end with the
// connection. The contexts of all requests end with Close.
package nodeserver
