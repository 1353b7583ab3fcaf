// SPDX-License-Identifier: Apache-2.0

// Package credentialplugin gets the credentials for an image from the kubelet's credential provider
// plug-ins (KEP-2133, as in 1.36): programs such as ecr-credential-provider, which read a request
// on standard input and write the credentials to standard output.
//
//	providers, err := credentialplugin.Read("/etc/kubernetes/credential-providers.yaml")
//	if err != nil {
//		return err
//	}
//	plugins, err := credentialplugin.New(credentialplugin.Options{Dir: "/usr/libexec/credential-providers", Providers: providers})
//	if err != nil {
//		return err
//	}
//	auths, err := plugins.Find(ctx, pod, "123.dkr.ecr.eu-west-1.amazonaws.com/app:1") // a runtime.Keyring
//
// # The caller's duties
//
//  1. Call Check at the start, so that a missing program is found before the first pull.
//  2. Let only root write the configuration, the folder Dir and the programs, because the programs
//     run as the caller's user.
//
// Find runs all plug-ins that match the image at the same time, and at most four processes of one
// plug-in. No goroutine outlives the call. Answers are kept in memory as long as the
// plug-in or its configuration says.
//
// A plug-in cannot harm the pull of other images. It is killed after a minute, its answer has at most
// 1 MiB, and its standard error is discarded. If an answer is unusable, the plug-in gives no
// credentials. Errors contain no answer, no standard error and no environment.
//
// # Differences from the kubelet (1.36)
//
//   - A path of matchImages and of an answer matches whole elements of an image's path, as in
//     package pullsecrets. In a part of a host, only * is a wildcard.
//   - Plug-ins get no service account tokens: tokenAttributes are refused.
//   - A plug-in is killed together with the processes started by the plug-in. If the plug-in ends
//     while another process holds its output, there is no answer.
//   - The plug-ins that match an image run at the same time.
package credentialplugin
