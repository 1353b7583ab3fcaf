// SPDX-License-Identifier: Apache-2.0

// Package pullsecrets finds the credentials for an image: first in the imagePullSecrets of the pod,
// then in a file of the node.
//
//	keyring, err := pullsecrets.New(pullsecrets.Options{Secrets: store, File: "/var/lib/gw/config.json", Events: recorder})
//	if err != nil {
//		return err
//	}
//	manager, err := runtime.New(runtime.Options{…, Keyring: keyring.Find})
//
// Secrets of the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg, and the file,
// are read at every pull, so changes apply at once. The package has no state and no goroutine.
//
// # The caller's duties
//
//  1. Provide a Source that answers fast, for example from memory: every pull waits for the
//     Source.
//  2. Return only Secrets of the requested namespace from the Source.
//
// # Differences from the kubelet (1.36)
//
// Credentials are chosen and ordered as in the kubelet: by the parts of the host, in which * stands
// for any text, by the port, and by the path. The longest path comes first. The differences are:
//
//   - A path matches whole elements: credentials for registry.example/team are not sent for
//     registry.example/team-b/app.
//   - identitytoken and registrytoken of an entry are passed on.
//   - An invalid entry of a secret does not invalidate its other entries.
//   - The node's own credentials are in a single file with a configured path, read at every pull.
//     The kubelet searches several files, also in its working and home folders, and caches the
//     content for five minutes. Credential helpers named in a config.json are not run. Credential
//     provider plug-ins are in package credentialplugin.
package pullsecrets
