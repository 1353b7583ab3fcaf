// SPDX-License-Identifier: Apache-2.0

// Package pullsecrets finds the credentials for an image in the imagePullSecrets of the pod that wants it.
//
//	keyring, err := pullsecrets.New(pullsecrets.Options{Secrets: store, Events: recorder})
//	if err != nil {
//		return err
//	}
//	manager, err := runtime.New(runtime.Options{…, Keyring: keyring.Find})
//
// Secrets of the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg are read each time that an image is
// pulled: nothing is kept, so that a secret that changed counts at once. There is no goroutine.
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
//   - The node's own credentials (/var/lib/kubelet/config.json, credential plugins) are somebody else's affair.
package pullsecrets
