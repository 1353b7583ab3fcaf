// SPDX-License-Identifier: Apache-2.0

package kubeclient

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// EventSink writes events. It is a record.EventSink of client-go.
type EventSink struct{ Client *Client }

// Create implements record.EventSink.
func (s EventSink) Create(e *v1.Event) (*v1.Event, error) {
	return s.Client.Events(e.Namespace).Create(context.Background(), e, metav1.CreateOptions{})
}

// Update implements record.EventSink.
func (s EventSink) Update(e *v1.Event) (*v1.Event, error) {
	return s.Client.Events(e.Namespace).Update(context.Background(), e, metav1.UpdateOptions{})
}

// Patch implements record.EventSink.
func (s EventSink) Patch(e *v1.Event, data []byte) (*v1.Event, error) {
	return s.Client.Events(e.Namespace).Patch(context.Background(), e.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}
