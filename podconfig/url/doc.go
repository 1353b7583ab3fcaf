// SPDX-License-Identifier: Apache-2.0

// Package url is a podconfig.Source of static pods from a URL: what the kubelet's --manifest-url does, without getting
// stuck.
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
//  1. Give the same URL after a restart: scheme, host and path are part of its pods' UIDs. User, password and query are
//     not, so that a token may change.
//  2. Give each Source to one Run. To drive it without Run, call Poll from one goroutine, again after Result.Next.
//  3. Return from Problem and the Decoder's functions; the source waits for them.
//  4. Say in Client what is allowed of redirects and TLS. Its connections are the caller's to close.
//
// # What an answer means
//
//	200, pods that are valid     these are the pods now, if the body is not the last one
//	200, an empty body           there are no pods (and this is told as a problem)
//	200, anything else           a problem: garbage, one bad pod of many, 10 MiB or more
//	304                          as the answer before, be it good or bad
//	anything else, or nothing    a problem: other statuses, timeouts, broken connections, refused redirects
//
// A problem changes nothing: the last good pods stay, for as long as it lasts. It is told once, and not again when it
// comes and goes beside others, until all is well again; that is told, too. Nothing is kept over a restart of the agent
// (a checkpoint of podconfig is for that): until the first good answer the source is not ready.
//
// A body that cannot be used is remembered with its error, so that it is neither fetched nor decoded again; the pods that
// count stay those of the last good body. No ETag and no time of change is trusted that the server gave within two
// seconds of a change: the next one may have the same.
//
// # When it asks
//
// At once, and then a period (20 s, give or take a tenth) after the end of each poll, which takes 10 s at most. Before
// its first good answer a source asks sooner, after 1, 2, 4, … seconds. Failures make it ask no more rarely: what a
// failing server gets is no more than what it gets when it is well. Retry-After is heeded, up to ten minutes.
//
// Run is one goroutine, the caller's; net/http's end with the poll, or with the Client's connections. Everything runs in
// a testing/synctest bubble, with a Client that does.
//
// # Differences from the kubelet (1.36)
//
//   - A body that cannot be used is a problem for as long as it is served; the kubelet tells it once and calls it a
//     success from then on.
//   - After an empty body the old one counts again; the kubelet ignores it until it changes.
//   - No error and no log line holds the body, or of the URL the user, password or query; the kubelet logs all of the
//     body.
//   - Requests are conditional. TLS, proxies and redirects are the Client's; the kubelet has no options for them.
//   - The UID depends on the node, and not on the URL's query.
//   - An empty body must say that it is: one that ends with the connection is a problem.
//   - A header Host is sent as such.
//   - Pods of a URL get no toleration of NoExecute taints, as in the kubelet.
//
// # Differences from the contract's sketch
//
//   - New returns an error. Config has Timeout and Problem besides.
//   - The single step is exported: Poll.
package url
