// SPDX-License-Identifier: Apache-2.0

// Package handlers makes attempts of the probes that a pod's spec can ask for: httpGet (HTTP/1.1, HTTPS, HTTP/2 in
// clear text), tcpSocket, grpc (plaintext and TLS) and exec.
//
//	h, err := handlers.New(handlers.Options{Runner: runner})
//	p, err := prober.New(prober.Options{Handler: h})
//
// A Runner runs exec probes. That of package runtime's backends takes a few lines, since what they can do is a
// runtime.Execer and a prober knows containers by the text of their IDs:
//
//	runner := handlers.RunnerFunc(func(ctx context.Context, id string, cmd []string) ([]byte, []byte, int, error) {
//		parsed, err := runtime.ParseContainerID(id)
//		if err != nil {
//			return nil, nil, 0, err
//		}
//		return execer.Exec(ctx, parsed, cmd)
//	})
//
// A Handler starts no goroutine of its own; those of net/http and grpc-go end with the attempt, and every connection is
// closed when Probe returns. Attempts share nothing: neither connections nor TLS sessions.
//
// # Differences from the kubelet (1.36)
//
//   - A pod without an address has no verdict. The kubelet dials an empty host, which is the node itself.
//   - An HTTP server whose body breaks off or does not come is unhealthy; in the kubelet that never counts.
//   - Connections leave no TIME_WAIT behind (89898): tcpSocket and grpc reset them, httpGet waits a moment for the server
//     to close first. See Options.Closing.
//   - A refused grpc connection fails at once, not when the timeout is over.
//   - What a server sent does not appear in the texts of transport errors, nor do queries of URLs (99425).
//   - An exec probe whose command cannot be run has no verdict, and one that is too late is a failure; neither text
//     repeats the command, which may have secrets in it. A command that grows beyond 1 MiB by its variables is not run.
package handlers
