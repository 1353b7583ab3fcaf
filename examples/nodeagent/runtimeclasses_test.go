// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// classServer is an API server that may be unreachable.
type classServer struct {
	handlers map[string]string
	hangs    bool
}

func (s *classServer) Get(ctx context.Context, name string, _ metav1.GetOptions) (*nodev1.RuntimeClass, error) {
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	handler, ok := s.handlers[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "node.k8s.io", Resource: "runtimeclasses"}, name)
	}
	return &nodev1.RuntimeClass{Handler: handler}, nil
}

func TestRuntimeClassesAreReadWhenAPodStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &classServer{handlers: map[string]string{"kata": "kata-qemu"}}
		c := newRuntimeClasses(server)
		handler, err := c.find(t.Context(), "kata")
		require.NoError(t, err)
		require.Equal(t, "kata-qemu", handler)
		_, err = c.find(t.Context(), "gvisor")
		require.True(t, apierrors.IsNotFound(err))

		server.hangs = true
		began := time.Now()
		handler, err = c.find(t.Context(), "kata")
		require.NoError(t, err, "as known")
		require.Equal(t, "kata-qemu", handler)
		_, err = c.find(t.Context(), "gvisor")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2*classTimeout, time.Since(began))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.find(ctx, "kata")
		require.ErrorIs(t, err, context.Canceled)

		server.hangs, server.handlers = false, nil
		_, err = c.find(t.Context(), "kata")
		require.True(t, apierrors.IsNotFound(err), "deleted")
		server.hangs = true
		_, err = c.find(t.Context(), "kata")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
