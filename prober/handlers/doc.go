// SPDX-License-Identifier: Apache-2.0

// Package handlers implements the probe handlers of the pod spec: httpGet (HTTP/1.1, HTTPS, HTTP/2
// in clear text), tcpSocket, grpc (plaintext and TLS) and exec.
//
//	h, err := handlers.New(handlers.Options{Runner: runner})
//	p, err := prober.New(prober.Options{Handler: h})
//
// A Runner runs exec probes; runtime.ExecRunner is a Runner for the backends of package runtime.
//
// A Handler starts no goroutines. Goroutines of net/http and grpc-go end with the attempt, and
// every connection is closed when Probe returns. Attempts share nothing: neither connections nor
// TLS sessions.
//
// # Differences from the kubelet (1.36)
//
//   - A pod without an address has no verdict. The kubelet dials an empty host, and so the node
//     itself.
//   - An HTTP server whose body is missing or incomplete is unhealthy; the kubelet ignores such a
//     body.
//   - Connections leave no TIME_WAIT sockets (89898): tcpSocket and grpc reset the connection, and
//     httpGet waits a moment for the server to close first.
//   - A refused grpc connection fails at once, not when the timeout is over.
//   - Texts of transport errors contain neither data sent by the server nor queries of URLs
//     (99425).
//   - An exec probe whose command cannot be run has no verdict, and a command past its deadline is
//     a failure. Neither text repeats the command, which may contain secrets. A command that
//     exceeds 1 MiB after expanding variables is not run.
package handlers
