// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"time"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// classTimeout limits a request for a RuntimeClass.
const classTimeout = 10 * time.Second

// runtimeClassGetter reads RuntimeClasses of an API server.
type runtimeClassGetter interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*nodev1.RuntimeClass, error)
}

// findRuntimeClass looks up the handlers of RuntimeClasses. A class is read when a pod of the class
// starts: most nodes have no such pod, so a watch would be idle.
func findRuntimeClass(client runtimeClassGetter) findHandler {
	return func(ctx context.Context, class string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, classTimeout)
		defer cancel()
		object, err := client.Get(ctx, class, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return object.Handler, nil
	}
}
