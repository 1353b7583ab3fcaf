// SPDX-License-Identifier: Apache-2.0

// Package projected puts several sources into one volume: ConfigMaps, Secrets, fields of the pod, tokens of its service
// account, trust bundles and certificates.
//
//	tokens, err := projected.NewTokenCache(projected.TokenCacheOptions{
//		Source: projected.TokenSourceFunc(createToken), // serviceaccounts/token of the API server
//		Due: func(uid types.UID) { // four fifths of a token's life are over
//			manager.Refresh(func(pod *v1.Pod, v v1.Volume) bool { return pod.UID == uid && projected.HasToken(v) })
//		},
//	})
//	go tokens.Run(ctx)
//	plugin, err := projected.New(projected.Options{ConfigMaps: store, Secrets: store, Tokens: tokens})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duties: those of packages configmap and downwardapi; give the sources that pods may use (a source that
// is not given makes the volumes that name it fail, with its name); run the TokenCache if there is one.
//
// The plugin starts no goroutine; TokenCache.Run is one, and asleep but for the next token that is due.
//
// Sources are taken in their order, and a later one wins a path that an earlier one has, too. Files lie on a tmpfs of
// each volume's own; where the agent cannot mount, on the disk. Tokens, bundles and certificates get mode 0600 where
// the pod has an fsGroup or one user for all of its containers, who owns them then.
//
// Differences from the kubelet (1.36): those of package configmap; no cluster is needed for what needs none; a token
// is renewed when it is due and not with the next sync of the pod.
package projected
