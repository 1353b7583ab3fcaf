// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// ClaimsOptions are the options of NewClaims.
type ClaimsOptions struct {
	// Client reads claims and volumes, for example FromCore(CoreV1()) with client-go. Required.
	Client ClaimsClient
	// Node returns the node, for example (*Node).Get. The node's name and labels decide whether a
	// volume with a node affinity may be used. Node is called for such volumes only, possibly
	// concurrently. The result is not written to. Required.
	Node func(ctx context.Context) (*v1.Node, error)
}

// Claims finds the persistent volumes behind claims, with two requests for each Resolve. Concurrent
// calls for the same object share a request. Claims implements volumemanager.Claims.
type Claims struct {
	options ClaimsOptions
	claims  flights[types.NamespacedName, *v1.PersistentVolumeClaim]
	volumes flights[string, *v1.PersistentVolume]
}

var _ volumemanager.Claims = (*Claims)(nil)

// NewClaims returns a Claims. The error names the invalid option.
func NewClaims(o ClaimsOptions) (*Claims, error) {
	switch {
	case o.Client == nil:
		return nil, fmt.Errorf("%w: ClaimsOptions.Client is required", ErrOptions)
	case o.Node == nil:
		return nil, fmt.Errorf("%w: ClaimsOptions.Node is required", ErrOptions)
	}
	return &Claims{options: o}, nil
}

// Resolve returns the volume behind a persistentVolumeClaim or ephemeral volume of a pod. All
// errors are transient, because the claim or volume may be fixed before the next sync of the pod.
// Errors name the claim, and wrap an *Error if a request failed.
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
		return request(ctx, verbGet, func(ctx context.Context) (*v1.PersistentVolumeClaim, error) {
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
		return request(ctx, verbGet, func(ctx context.Context) (*v1.PersistentVolume, error) {
			pv, err := c.options.Client.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
			if err == nil {
				pv.ManagedFields = nil // unused, and the manager writes the PV to disk
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

// request runs do with requestTimeout, and converts its error to an *Error or the cause of ctx.
func request[T any](ctx context.Context, verb string, do func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeoutCause(silent(ctx), requestTimeout, clientkit.TimeoutError{After: requestTimeout})
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
