// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/statusmanager"
)

// PatchStatus applies a strategic merge patch to the status of a pod, like the API server (1.36): a
// patch with another UID is invalid, a patch that undoes the end of a container is invalid, and a
// patch without a change keeps the resource version.
func (s *Server) PatchStatus(ctx context.Context, ref statusmanager.PodRef, patch []byte) (*v1.Pod, error) {
	defer s.deliver()
	return s.request(ctx, statusmanager.RequestPatch, ref, patch, func(pod *v1.Pod, poison *poison) (*v1.Pod, error) {
		return s.patch(ref, pod, patch, poison)
	})
}

// set is PatchStatus for a Patcher in the same process. The text of the patch is only for the journal,
// unless the pod has changed.
func (s *Server) set(ctx context.Context, ref statusmanager.PodRef, p statusmanager.Patch) (*v1.Pod, error) {
	defer s.deliver()
	var text []byte
	var failed error
	if s.options.JournalLimit >= 0 {
		text, failed = p.Encode()
	}
	return s.request(ctx, statusmanager.RequestPatch, ref, text, func(pod *v1.Pod, poison *poison) (*v1.Pod, error) {
		if pod.ResourceVersion == p.Version {
			return s.storeStatus(ref, pod, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: ref.UID}, Status: *p.Status}, poison)
		}
		if text == nil && failed == nil {
			text, failed = p.Encode()
		}
		if failed != nil {
			return nil, apierrors.NewBadRequest(failed.Error())
		}
		return s.patch(ref, pod, text, poison)
	})
}

// patch applies a patch. The lock is held.
func (s *Server) patch(ref statusmanager.PodRef, pod *v1.Pod, text []byte, poison *poison) (*v1.Pod, error) {
	patched, err := apply(pod, text)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.storeStatus(ref, pod, patched, poison)
}

// storeStatus stores the status of patched, which has the UID of the patch. The lock is held.
func (s *Server) storeStatus(ref statusmanager.PodRef, pod, patched *v1.Pod, p *poison) (*v1.Pod, error) {
	if patched.UID != pod.UID {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, ref.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), patched.UID, "field is immutable"),
		})
	}
	if statusmanager.Revives(&pod.Spec, &pod.Status, &patched.Status) {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, ref.Name, field.ErrorList{
			field.Forbidden(field.NewPath("status", "containerStatuses"), "a container may not come back from its end"),
		})
	}
	next := new(*pod) // shares all but the status, because stored pods are never written to
	if p.Mutate != nil {
		next = pod.DeepCopy()
	}
	next.Status = patched.Status
	if s.options.Drop != nil {
		next.Status = *patched.Status.DeepCopy()
		s.options.Drop(&next.Status)
	}
	p.mutate(pod, next)
	next = s.store(next)
	p.meddle(s, pod, next)
	return next, nil
}

// DeletePod removes the pod if its UID matches. A pod with finalizers stays, with grace period 0.
func (s *Server) DeletePod(ctx context.Context, ref statusmanager.PodRef) error {
	defer s.deliver()
	_, err := s.request(ctx, statusmanager.RequestDelete, ref, nil, func(pod *v1.Pod, _ *poison) (*v1.Pod, error) {
		if pod.UID != ref.UID {
			return nil, uidConflict(ref.Name, ref.UID, pod.UID)
		}
		if len(pod.Finalizers) > 0 {
			next := pod.DeepCopy()
			next.DeletionGracePeriodSeconds = new(int64)
			return s.store(next), nil
		}
		s.drop(pod.UID)
		return pod, nil
	})
	return err
}

// GetPod returns the pod with the given namespace and name.
func (s *Server) GetPod(ctx context.Context, ref statusmanager.PodRef) (*v1.Pod, error) {
	return s.request(ctx, statusmanager.RequestGet, ref, nil, func(pod *v1.Pod, _ *poison) (*v1.Pod, error) { return pod, nil })
}

// request applies latency, delay and faults, and calls act on the named pod, with the lock held.
func (s *Server) request(ctx context.Context, kind statusmanager.Request, ref statusmanager.PodRef, patch []byte,
	act func(*v1.Pod, *poison) (*v1.Pod, error),
) (*v1.Pod, error) {
	e := Entry{At: time.Since(s.born), Request: kind, Pod: ref, Patch: string(patch)}
	fault := s.strike(kind, ref)
	latency := s.options.Latency
	if fault != nil {
		latency += fault.Latency
	}
	err := retry.Sleep(ctx, s.delay(kind, ref.Name))
	if err == nil {
		err = retry.Sleep(ctx, latency)
	}
	if err == nil && fault != nil && fault.HangUntilCtx && !fault.DoneButReplyLost {
		<-ctx.Done()
		err = ctx.Err()
	}
	if err == nil && fault != nil && fault.Err != nil && !fault.DoneButReplyLost {
		err = fault.Err
	}
	var pod *v1.Pod
	if err == nil {
		pod, err = s.act(&e, act)
	}
	if err == nil && fault != nil && fault.DoneButReplyLost {
		if fault.HangUntilCtx {
			<-ctx.Done()
		}
		pod, err = nil, errors.Join(ErrReplyLost, fault.Err)
	}
	e.Err, e.Took = err, time.Since(s.born)-e.At
	s.write(e)
	return pod, err
}

func (s *Server) act(e *Entry, act func(*v1.Pod, *poison) (*v1.Pod, error)) (*v1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.refuse(e.Request, e.Pod.Name)
	if err != nil {
		return nil, err
	}
	pod, ok := s.mu.pods[types.NamespacedName{Namespace: e.Pod.Namespace, Name: e.Pod.Name}]
	if !ok {
		return nil, apierrors.NewNotFound(v1.Resource("pods"), e.Pod.Name)
	}
	before := s.mu.version
	after, err := act(pod, p)
	e.Changed = s.mu.version != before || err == nil && e.Request == statusmanager.RequestDelete
	if err != nil {
		return nil, err
	}
	e.Phase = after.Status.Phase
	return p.distort(e.Request, after)
}

// apply returns the UID and the status of pod with a strategic merge patch applied: the parts that a
// patch of a status can change, or whose change is refused.
func apply(pod *v1.Pod, patch []byte) (*v1.Pod, error) {
	if patched, ok := merge(pod, patch); ok {
		return patched, nil
	}
	return applyGeneral(pod, patch)
}

// applyGeneral is apply for any patch.
func applyGeneral(pod *v1.Pod, patch []byte) (*v1.Pod, error) {
	before, err := json.Marshal(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: pod.Status})
	if err != nil {
		return nil, fmt.Errorf("encoding the pod: %w", err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("applying the patch: %w", err)
	}
	patched := &v1.Pod{}
	if err := json.Unmarshal(after, patched); err != nil {
		return nil, fmt.Errorf("decoding the patched pod: %w", err)
	}
	return patched, nil
}

func uidConflict(name string, wanted, is types.UID) error {
	return apierrors.NewConflict(v1.Resource("pods"), name,
		fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", wanted, is))
}
