// SPDX-License-Identifier: Apache-2.0

// Package objects keeps ConfigMaps and Secrets in memory for the plugins that make files of them, and tells when one
// has changed, so that a volume is renewed by an event and not by a clock. Files on the node or the API server feed it.
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
// The caller's duties: say everything that is there before pods are started, else they wait for what is "not found";
// do not write to an object that was passed in.
//
// There are no goroutines; Changed runs in that of the caller, outside of any lock.
package objects
