// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"sync"
	"time"

	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// classTimeout limits a request for a RuntimeClass.
const classTimeout = 10 * time.Second

// runtimeClassGetter reads RuntimeClasses of an API server.
type runtimeClassGetter interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*nodev1.RuntimeClass, error)
}

// runtimeClasses looks up RuntimeClasses of an API server. A class is read when a pod of the class
// starts: most nodes have no such pod, so a watch would be idle.
type runtimeClasses struct {
	client runtimeClassGetter

	mu    sync.Mutex
	known map[string]string // handler by class
}

func newRuntimeClasses(client runtimeClassGetter) *runtimeClasses {
	return &runtimeClasses{client: client, known: make(map[string]string)}
}

// find returns the handler of a class. If the API server does not answer, find returns the handler
// that the class had at the last call.
func (c *runtimeClasses) find(ctx context.Context, class string) (string, error) {
	within, cancel := context.WithTimeout(ctx, classTimeout)
	defer cancel()
	object, err := c.client.Get(within, class, metav1.GetOptions{})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch handler, known := c.known[class]; {
	case err == nil:
		c.known[class] = object.Handler
		return object.Handler, nil
	case apierrors.IsNotFound(err):
		delete(c.known, class)
		return "", err
	case known && ctx.Err() == nil:
		return handler, nil
	default:
		return "", err
	}
}
