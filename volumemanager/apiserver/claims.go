// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// ClaimsClient reads claims and volumes; client-go's CoreV1() is one.
type ClaimsClient interface {
	corev1.PersistentVolumeClaimsGetter
	corev1.PersistentVolumesGetter
}

// ClaimsOptions are the options of NewClaims.
type ClaimsOptions struct {
	// Client reads claims and volumes; client-go's CoreV1() is one. Required.
	Client ClaimsClient
	// Node returns the node, whose name and labels decide whether a volume with a node affinity may be used; (*Node).Get
	// does. It is called for such volumes only, possibly concurrently, and its result is not written to. Required.
	Node func(ctx context.Context) (*v1.Node, error)
	// Timeout is how long one request may take. Defaults to DefaultTimeout.
	Timeout time.Duration
}

// Claims finds the persistent volumes behind claims, with two requests for each Resolve; calls that come together share
// them. It is a volumemanager.Claims.
type Claims struct {
	options ClaimsOptions
	claims  flights[types.NamespacedName, *v1.PersistentVolumeClaim]
	volumes flights[string, *v1.PersistentVolume]
}

var _ volumemanager.Claims = (*Claims)(nil)

// NewClaims returns a Claims. An error names the option that is wrong.
func NewClaims(o ClaimsOptions) (*Claims, error) {
	switch {
	case o.Client == nil:
		return nil, fmt.Errorf("%w: ClaimsOptions.Client is required", ErrOptions)
	case o.Node == nil:
		return nil, fmt.Errorf("%w: ClaimsOptions.Node is required", ErrOptions)
	case o.Timeout < 0:
		return nil, fmt.Errorf("%w: ClaimsOptions.Timeout is negative: %v", ErrOptions, o.Timeout)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	return &Claims{options: o}, nil
}

// Resolve returns the volume behind a persistentVolumeClaim or ephemeral volume of a pod. Its errors are transient: what
// is wrong may be right at the next sync of the pod. They name the claim, and wrap an *Error if the server is why.
func (c *Claims) Resolve(ctx context.Context, pod *v1.Pod, volume v1.Volume) (volumemanager.Spec, error) {
	spec, err := c.resolve(ctx, pod, volume)
	return spec, volumemanager.Transient(err)
}

func (c *Claims) resolve(ctx context.Context, pod *v1.Pod, volume v1.Volume) (volumemanager.Spec, error) {
	var none volumemanager.Spec
	name, err := claimName(pod, &volume)
	if err != nil {
		return none, err
	}
	id := types.NamespacedName{Namespace: pod.Namespace, Name: name}
	claim, err := c.claims.do(ctx, id, func(ctx context.Context) (*v1.PersistentVolumeClaim, error) {
		return request(ctx, c.options.Timeout, VerbGet, func(ctx context.Context) (*v1.PersistentVolumeClaim, error) {
			return c.options.Client.PersistentVolumeClaims(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
		})
	})
	if err == nil {
		err = checkClaim(claim, pod, &volume)
	}
	if err != nil {
		return none, fmt.Errorf("PersistentVolumeClaim %s: %w", id, err)
	}
	pv, err := c.volumes.do(ctx, claim.Spec.VolumeName, func(ctx context.Context) (*v1.PersistentVolume, error) {
		return request(ctx, c.options.Timeout, VerbGet, func(ctx context.Context) (*v1.PersistentVolume, error) {
			pv, err := c.options.Client.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
			if err == nil {
				pv.ManagedFields = nil // the manager writes it to disk
			}
			return pv, err
		})
	})
	if err == nil {
		err = checkVolume(pv, claim)
	}
	if err == nil {
		err = c.checkAffinity(ctx, pv)
	}
	if err != nil {
		return none, fmt.Errorf("PersistentVolumeClaim %s: PersistentVolume %s: %w", id, claim.Spec.VolumeName, err)
	}
	return specOf(claim, pv, &volume), nil
}

func (c *Claims) checkAffinity(ctx context.Context, pv *v1.PersistentVolume) error {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	node, err := c.options.Node(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("its node affinity: node: %w", err)
	case node == nil:
		return errors.New("its node affinity: the node is not known")
	}
	ok, err := selects(pv.Spec.NodeAffinity.Required, node)
	switch {
	case err != nil:
		return fmt.Errorf("its node affinity: %w", err)
	case !ok:
		return errors.New("its node affinity excludes this node")
	}
	return nil
}

// request makes one request within a time.
func request[T any](ctx context.Context, timeout time.Duration, verb Verb, do func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeoutCause(silent(ctx), timeout, timeoutError{timeout})
	defer cancel()
	value, err := do(limited)
	if err == nil {
		return value, nil
	}
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	if limited.Err() != nil {
		err = context.Cause(limited)
	}
	return none, problem(objects.Ref{}, verb, err)
}
