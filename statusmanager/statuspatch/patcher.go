// SPDX-License-Identifier: Apache-2.0

package statuspatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/kubeclient"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Options configure a Patcher.
type Options struct {
	// Config holds the address of the API server, the credentials and the rate limits. New copies
	// the Config. Required.
	Config *rest.Config
}

// Patcher writes statuses to an API server. All methods are safe for concurrent use. Errors wrap
// the error of the server or the transport, with the server's Retry-After.
type Patcher struct{ client rest.Interface }

// New returns a Patcher. The error names the invalid field of o.
func New(o Options) (*Patcher, error) {
	if o.Config == nil {
		return nil, errors.New("statuspatch: Options.Config is required")
	}
	config := rest.CopyConfig(o.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noting{next} })
	client, err := kubeclient.New(config)
	if err != nil {
		return nil, fmt.Errorf("statuspatch: Options.Config: %w", err)
	}
	return &Patcher{client: client.Core()}, nil
}

// PatchStatus sends a strategic merge patch to the status subresource of a pod, once, and returns
// the patched pod.
func (p *Patcher) PatchStatus(ctx context.Context, ref statusmanager.PodRef, patch []byte) (*v1.Pod, error) {
	pod := &v1.Pod{}
	ctx, asked := withAsked(ctx)
	err := about(p.client.Patch(types.StrategicMergePatchType), ref).SubResource("status").Body(patch).Do(ctx).Into(pod)
	if err != nil {
		return nil, fmt.Errorf("patching the status of pod %s: %w", ref, asked.in(err))
	}
	return pod, nil
}

// DeletePod deletes a pod with grace period 0, on condition that the pod has the UID of ref.
func (p *Patcher) DeletePod(ctx context.Context, ref statusmanager.PodRef) error {
	options := &metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      metav1.NewUIDPreconditions(string(ref.UID)),
	}
	ctx, asked := withAsked(ctx)
	if err := about(p.client.Delete(), ref).Body(options).Do(ctx).Error(); err != nil {
		return fmt.Errorf("deleting pod %s: %w", ref, asked.in(err))
	}
	return nil
}

// GetPod returns the pod with the given namespace and name, whatever its UID.
func (p *Patcher) GetPod(ctx context.Context, ref statusmanager.PodRef) (*v1.Pod, error) {
	pod := &v1.Pod{}
	ctx, asked := withAsked(ctx)
	if err := about(p.client.Get(), ref).Do(ctx).Into(pod); err != nil {
		return nil, fmt.Errorf("getting pod %s: %w", ref, asked.in(err))
	}
	return pod, nil
}

// about completes a request for one pod, without retries.
func about(r *rest.Request, ref statusmanager.PodRef) *rest.Request {
	return r.Namespace(ref.Namespace).Resource("pods").Name(ref.Name).MaxRetries(0)
}
