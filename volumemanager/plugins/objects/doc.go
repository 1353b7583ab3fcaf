// SPDX-License-Identifier: Apache-2.0

// Package objects keeps ConfigMaps and Secrets in memory for the plugins with volumes of such
// objects, and reports changes, so that an event instead of a timer refreshes the volume. Feed the
// store from files on the node or from the API server.
//
//	store, err := objects.NewStore(objects.Options{
//		Changed: func(r objects.Ref) { manager.Refresh(r.UsedBy) },
//	})
//	configMaps, err := configmap.New(configmap.Options{Source: store})
//	secrets, err := secret.New(secret.Options{Source: store})
//
//	store.SetConfigMap(cm) // from an informer, a folder, a message bus
//	store.Delete(objects.Ref{Kind: objects.Secret, Namespace: "default", Name: "gone"})
//
// The caller's duties: set all existing objects before pods are started, else their volumes fail
// with "not found" at first. Do not write to an object after passing it to the store.
//
// The package starts no goroutines. Changed runs in the caller's goroutine, without a lock held.
package objects
