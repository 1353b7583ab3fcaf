// SPDX-License-Identifier: Apache-2.0

// Package projected implements projected volumes: several sources in the same volume, from
// ConfigMaps, Secrets, fields of the pod, service account tokens, trust bundles and certificates.
//
//	tokens, err := projected.NewTokenCache(projected.TokenCacheOptions{
//		Source: projected.TokenSourceFunc(createToken), // serviceaccounts/token of the API server
//		Due: func(uid types.UID) { // four fifths of a token's lifetime are over
//			manager.Refresh(func(pod *v1.Pod, v v1.Volume) bool { return pod.UID == uid && projected.HasToken(v) })
//		},
//	})
//	go tokens.Run(ctx)
//	plugin, err := projected.New(projected.Options{ConfigMaps: store, Secrets: store, Tokens: tokens})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duties: the duties of packages configmap and downwardapi. Set the sources that pods
// may use; a volume with an unset source fails, and the error names the source. Run the TokenCache
// if there is one.
//
// The plugin starts no goroutine. TokenCache.Run sleeps until the next token is due.
//
// Sources are read in the order of the spec; for the same path, the later source wins. Each volume
// has a tmpfs of its own; if the agent cannot mount, files are on the disk. Tokens, bundles and
// certificates get mode 0600 if the pod has an fsGroup, or the same user for all of its containers;
// this user then owns the files.
//
// Differences from the kubelet (1.36): see package configmap. Sources without cluster objects work
// without a cluster. A token is renewed when it is due, not in the next sync of the pod.
package projected
