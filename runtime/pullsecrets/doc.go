// SPDX-License-Identifier: Apache-2.0

// Package pullsecrets finds the credentials for an image: in the imagePullSecrets of the pod that wants it, and after
// these in a file of the node's.
//
//	keyring, err := pullsecrets.New(pullsecrets.Options{Secrets: store, File: "/var/lib/gw/config.json", Events: recorder})
//	if err != nil {
//		return err
//	}
//	manager, err := runtime.New(runtime.Options{…, Keyring: keyring.Find})
//
// Secrets of the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg, and the file, are read each time that an
// image is pulled: nothing is kept, so that one that changed counts at once. There is no goroutine.
//
// The caller's duties: have the secrets at hand that pods name (a source that asks an API server each time makes every
// pull wait for it), and keep what a pod may name apart by namespace.
//
// Which credentials are for an image, and in what order they are tried, is as in the kubelet (1.36): host by host part,
// in which * stands for any text, the port if there is one, and the path; the longest path is first. Differences:
//
//   - A path is matched by whole elements: credentials for registry.example/team are not sent for
//     registry.example/team-b/app.
//   - identitytoken and registrytoken of an entry are passed on.
//   - One entry of a secret that makes no sense does not take the others with it.
//   - The node's own credentials are in one file that is named, and read at each pull; the kubelet looks for several, also
//     in its working and home folders, and keeps what they say for five minutes. Credential plugins, and the helpers that a
//     config.json may name, are not run.
package pullsecrets
