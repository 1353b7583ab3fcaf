// SPDX-License-Identifier: Apache-2.0

// Package url is a podconfig.Source of static pods from a URL, like the kubelet's --manifest-url,
// without its stuck states.
//
//	src, err := url.New(url.Config{
//		URL:     "https://site.example/nodes/edge-17/pods.yaml",
//		Header:  http.Header{"Authorization": {"Bearer " + token}},
//		Decoder: &manifest.Decoder{NodeName: "edge-17", Strict: true},
//		Client:  &http.Client{Transport: &http.Transport{TLSClientConfig: siteTLS}}, // default: the system's authorities
//		Problem: func(err error) {
//			if err != nil {
//				log.Println(err) // one line, once per kind of problem
//			}
//		},
//	})
//	if err != nil {
//		return err
//	}
//	return podconfig.Run(ctx, store, queue.Push, src)
//
// # The caller's duties
//
//  1. Use the same URL after a restart: scheme, host and path are part of its pods' UIDs. User,
//     password and query are not part of the UIDs, so that a token may change.
//  2. Pass each Source to a single Run. To work without Run, call Poll from a single goroutine, and
//     again after Result.Next.
//  3. Return promptly from Problem and from the Decoder's functions: the source waits for them.
//  4. Configure redirects and TLS in Client, and close its connections.
//
// # Answers of the server
//
//	200, pods that are valid     the new pods, unless the body is unchanged
//	200, an empty body           no pods, and a problem is reported
//	200, anything else           a problem: invalid content, a single invalid pod, 10 MiB or more
//	304                          same as the previous answer, valid or not
//	anything else, or nothing    a problem: another status, timeouts, broken connections, refused redirects
//
// A problem changes nothing: the last valid pods stay for its whole duration. Each kind of problem
// is reported once until all problems have ended, and the end is reported, too. No state survives a
// restart of the agent, except in a podconfig checkpoint: until the first valid answer the source
// is not ready.
//
// The source remembers an invalid body with its error, and neither fetches nor decodes the same body
// again. The pods of the last valid body stay. An ETag or modification time sent within two
// seconds of a change is not trusted, because the next change may have the same value.
//
// # Times of polls
//
// The source polls at once, and then a period (20 s, plus or minus a tenth) after the end of each
// poll. A poll takes 10 s at most. Before the first valid answer the source polls sooner, after 1,
// 2, 4, … seconds. Failures do not lengthen the period: a failing server receives at most as many
// requests as a healthy server. Retry-After is respected, up to ten minutes.
//
// Run uses only the caller's goroutine. The goroutines of net/http end with the poll, or with the
// Client's connections. The source runs in a testing/synctest bubble, given a Client without real
// I/O.
//
// # Differences from the kubelet (1.36)
//
//   - An invalid body is a problem while the server sends it. The kubelet reports it once and then
//     treats it as a success.
//   - After an empty body, the former body is valid again. The kubelet ignores it until it changes.
//   - Errors and logs contain neither the body nor the URL's user, password or query. The kubelet
//     logs the whole body.
//   - Requests are conditional. The Client configures TLS, proxies and redirects; the kubelet has
//     no options for them.
//   - The UID depends on the node, not on the URL's query.
//   - An empty body must have a declared length: an empty body ended only by the connection is a
//     problem.
//   - A header Host is sent as the request's host.
//   - As in the kubelet, pods of a URL receive no toleration of NoExecute taints.
//
// The step Poll is exported, so that a program can drive the source without Run.
package url
