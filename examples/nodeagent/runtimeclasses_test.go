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
		find := findRuntimeClass(server)
		handler, err := find(t.Context(), "kata")
		require.NoError(t, err)
		require.Equal(t, "kata-qemu", handler)
		_, err = find(t.Context(), "gvisor")
		require.True(t, apierrors.IsNotFound(err))

		server.hangs = true
		began := time.Now()
		_, err = find(t.Context(), "kata")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, classTimeout, time.Since(began))
	})
}
