// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/internal/kubeclient"
	"github.com/keelson-dev/keelson/internal/retry"
)

// tryTimeout limits a single request, and watchTimeout a watch.
const (
	tryTimeout   = 30 * time.Second
	watchTimeout = 5 * time.Minute
)

// APIRequester is a Requester on client-go.
type APIRequester struct {
	objects *kubeclient.CertificateSigningRequests
}

// NewRequester returns a Requester with the server and the credentials of config. NewRequester
// sends no request.
func NewRequester(config *rest.Config) (*APIRequester, error) {
	client, err := kubeclient.New(config)
	if err != nil {
		return nil, fmt.Errorf("certificate signing requests: %w", err)
	}
	return &APIRequester{client.CertificateSigningRequests()}, nil
}

// Create implements Requester.
func (r *APIRequester) Create(ctx context.Context, object *certificatesv1.CertificateSigningRequest) (types.UID, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tryTimeout, clientkit.TimeoutError{After: tryTimeout})
	defer cancel()
	made, err := r.objects.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = r.objects.Get(ctx, object.Name, metav1.GetOptions{})
	}
	if err != nil {
		_, plain := clientkit.Judge(err)
		return "", fmt.Errorf("create: %w", plain)
	}
	if !bytes.Equal(made.Spec.Request, object.Spec.Request) {
		return "", fmt.Errorf("create: %w: the name belongs to another request", ErrRefused)
	}
	return made.UID, nil
}

// Wait implements Requester. It watches the object, and reads the object again after the end of a
// watch.
func (r *APIRequester) Wait(ctx context.Context, name string, uid types.UID) ([]byte, error) {
	for n := 1; ; n++ {
		object, err := r.get(ctx, name)
		if err == nil {
			chain, err := answerOf(object, uid)
			if chain != nil || err != nil {
				return chain, err
			}
			chain, err = r.watch(ctx, object)
			if chain != nil || err != nil {
				return chain, err
			}
		}
		switch reason, plain := clientkit.Judge(err); {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
		case reason == clientkit.NotFound:
			return nil, ErrGone
		case reason == clientkit.Unauthorized || reason == clientkit.Forbidden:
			return nil, fmt.Errorf("get: %w", plain)
		}
		if err := retry.Sleep(ctx, retry.Backoff(n, firstBackoff, longestBackoff, rand.Float64())); err != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (r *APIRequester) get(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tryTimeout, clientkit.TimeoutError{After: tryTimeout})
	defer cancel()
	return r.objects.Get(ctx, name, metav1.GetOptions{})
}

// watch returns the answer to the request, or nil if the watch ends before.
func (r *APIRequester) watch(ctx context.Context, object *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	seconds := int64(watchTimeout / time.Second)
	changes, err := r.objects.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", object.Name).String(),
		ResourceVersion: object.ResourceVersion,
		TimeoutSeconds:  &seconds,
	})
	if err != nil {
		return nil, nil // the caller reads the object again, and gets the error
	}
	defer changes.Stop()
	for {
		select {
		case change, open := <-changes.ResultChan():
			now, isRequest := change.Object.(*certificatesv1.CertificateSigningRequest)
			if !open || !isRequest {
				return nil, nil
			}
			if now.Name != object.Name {
				continue
			}
			if change.Type == watch.Deleted {
				return nil, ErrGone
			}
			chain, err := answerOf(now, object.UID)
			if chain != nil || err != nil {
				return chain, err
			}
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// answerOf returns the issued certificate, or an error if no certificate will be issued, or
// neither.
func answerOf(object *certificatesv1.CertificateSigningRequest, uid types.UID) ([]byte, error) {
	if object.UID != uid {
		return nil, ErrGone
	}
	approved := false
	for _, c := range object.Status.Conditions {
		if c.Status == corev1.ConditionFalse {
			continue
		}
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return nil, fmt.Errorf("%w: denied: %s", ErrRefused, clientkit.OneLine(c.Message))
		case certificatesv1.CertificateFailed:
			return nil, fmt.Errorf("%w: the signer failed: %s", ErrRefused, clientkit.OneLine(c.Message))
		case certificatesv1.CertificateApproved:
			approved = true
		}
	}
	if approved && len(object.Status.Certificate) > 0 {
		return object.Status.Certificate, nil
	}
	return nil, nil
}
