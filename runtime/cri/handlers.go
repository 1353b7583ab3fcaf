// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/runtime"
)

// CheckPod implements runtime.Checker. The error lists all fields of the pod unsupported by the
// CRI, by this backend or by this runtime.
func (r *client) CheckPod(pod *v1.Pod) error {
	opts, known := r.knownHandler(pod)
	if !known {
		return r.refusal(r.refusedForAnyHandler(pod))
	}
	return r.checkWith(opts, pod)
}

// checkWith is CheckPod with options in which the pod's RuntimeClass is listed.
func (r *client) checkWith(opts *Options, pod *v1.Pod) error {
	return r.refusal(refusedFields(pod, opts, r.info))
}

// refusal returns the error for refused fields, or nil if there are none.
func (r *client) refusal(fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	return &runtime.UnsupportedError{Runtime: r.Name(), Fields: fields}
}

// foundHandler is an answer of Options.FindHandler. The pods of a class that is gone keep its handler.
type foundHandler struct {
	name string
	gone bool
}

// unlistedClass returns the RuntimeClass of a pod if Options.FindHandler has to look it up, else "".
func (o *Options) unlistedClass(pod *v1.Pod) string {
	if o.FindHandler == nil || pod.Spec.RuntimeClassName == nil {
		return ""
	}
	class := *pod.Spec.RuntimeClassName
	if _, listed := o.RuntimeHandlers[class]; listed {
		return ""
	}
	return class
}

// findHandler looks up the handler of a pod's RuntimeClass, unless the class is listed, and checks the
// pod. findHandler returns options in which the class is listed. If the look-up fails otherwise than with
// NotFound, findHandler uses the handler of the last look-up, unless the class was gone then.
func (r *client) findHandler(ctx context.Context, pod *v1.Pod) (*Options, error) {
	class := r.opts.unlistedClass(pod)
	if class == "" {
		return &r.opts, r.checkWith(&r.opts, pod)
	}
	handler, err := r.opts.FindHandler(ctx, class)
	r.mu.Lock()
	last, known := r.mu.handlers[class]
	switch {
	case err == nil:
		r.mu.handlers[class] = foundHandler{name: handler}
	case known && apierrors.IsNotFound(err):
		r.mu.handlers[class] = foundHandler{name: last.name, gone: true}
	case known && !last.gone && ctx.Err() == nil:
		handler, err = last.name, nil
	}
	r.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("look up RuntimeClass %q: %w", class, err)
	}
	opts := r.opts.listing(class, handler)
	return opts, r.checkWith(opts, pod)
}

// recallHandler is findHandler without a call of Options.FindHandler if the handler is known since an
// earlier call. The class of a pod that has a sandbox does not matter any more.
func (r *client) recallHandler(ctx context.Context, pod *v1.Pod) (*Options, error) {
	if opts, known := r.knownHandler(pod); known {
		return opts, r.checkWith(opts, pod)
	}
	return r.findHandler(ctx, pod)
}

// knownHandler returns the options in which the pod's class is listed. known is false if the class must
// be looked up first.
func (r *client) knownHandler(pod *v1.Pod) (opts *Options, known bool) {
	class := r.opts.unlistedClass(pod)
	if class == "" {
		return &r.opts, true
	}
	r.mu.Lock()
	handler, known := r.mu.handlers[class]
	r.mu.Unlock()
	if !known {
		return nil, false
	}
	return r.opts.listing(class, handler.name), true
}

// listing returns a copy of the options with one more class.
func (o *Options) listing(class, handler string) *Options {
	own := *o
	own.RuntimeHandlers = maps.Clone(o.RuntimeHandlers)
	if own.RuntimeHandlers == nil {
		own.RuntimeHandlers = make(map[string]string, 1)
	}
	own.RuntimeHandlers[class] = handler
	return &own
}

// refusedForAnyHandler lists the fields that no handler of the runtime could honour. The pod's class is
// looked up with its sandbox, and its fields are then checked again.
func (r *client) refusedForAnyHandler(pod *v1.Pod) []string {
	plain := *pod
	plain.Spec.RuntimeClassName = nil
	info := r.info
	info.Handlers = map[string]Handler{"": {RecursiveReadOnlyMounts: true, UserNamespaces: true}}
	return refusedFields(&plain, &r.opts, info)
}

// handlerOf returns the abilities of the pod's handler. The zero Handler means the runtime does not
// report handlers.
func handlerOf(pod *v1.Pod, classes map[string]string, info Info) Handler {
	return info.Handlers[handlerName(pod, classes)]
}

// handlerName returns the name of the pod's handler; "" is the runtime's default.
func handlerName(pod *v1.Pod, classes map[string]string) string {
	if pod.Spec.RuntimeClassName == nil {
		return ""
	}
	return classes[*pod.Spec.RuntimeClassName]
}
