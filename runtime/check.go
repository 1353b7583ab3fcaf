// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// CheckPod reports before any work whether the pod can run here. CheckPod asks the Runtime, the
// Generator and the Hooks, if they implement Checker. A refusal is a single *UnsupportedError with
// all fields.
func (m *Manager) CheckPod(pod *v1.Pod) error {
	var fields []string
	for _, c := range m.checkers {
		err := c.CheckPod(pod)
		if unsupported, ok := errors.AsType[*UnsupportedError](err); ok {
			fields = appendNew(fields, unsupported.Fields)
		} else if err != nil {
			return fmt.Errorf("check pod %s: %w", podName(pod), err)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return &UnsupportedError{Runtime: m.rt.Name(), Fields: fields}
}

// appendNew adds the messages about fields without an earlier message.
func appendNew(fields, more []string) []string {
	path := func(field string) string {
		p, _, _ := strings.Cut(field, " (")
		return p
	}
	for _, f := range more {
		if !slices.ContainsFunc(fields, func(other string) bool { return path(other) == path(f) }) {
			fields = append(fields, f)
		}
	}
	return fields
}

// CheckPod implements Checker. The pod is refused if the generator could never make the spec of one of
// its containers. A wrapper with more abilities needs its own CheckPod.
func (g *DefaultGenerator) CheckPod(pod *v1.Pod) error {
	r := refusals{}
	for ref, c := range Containers(pod) {
		for i := range c.Env {
			if from := c.Env[i].ValueFrom; from != nil && from.FileKeyRef != nil {
				r.add(fmt.Sprintf("spec.%s[%d].env[%d].valueFrom.fileKeyRef", ref.Group, ref.Index, i),
					"container "+c.Name+": no variables are read from files")
			}
		}
	}
	if _, err := podHostname(pod); errors.Is(err, ErrUnsupported) {
		r.add("spec.setHostnameAsFQDN", "the cluster's domain is not known")
	}
	return r.err()
}

// CheckPod implements Checker. The pod is refused if one of its hooks could never succeed.
func (h *hooks) CheckPod(pod *v1.Pod) error {
	r := refusals{}
	for ref, c := range Containers(pod) {
		if c.Lifecycle == nil {
			continue
		}
		at := fmt.Sprintf("spec.%s[%d].lifecycle.", ref.Group, ref.Index)
		h.check(&r, at+"postStart", c, c.Lifecycle.PostStart)
		h.check(&r, at+"preStop", c, c.Lifecycle.PreStop)
	}
	return r.err()
}

func (h *hooks) check(r *refusals, at string, c *v1.Container, hook *v1.LifecycleHandler) {
	switch {
	case hook == nil:
	case hook.Exec != nil && h.exec == nil:
		r.add(at+".exec", "container "+c.Name+": the runtime runs no commands in containers")
	case hook.Exec != nil:
	case hook.HTTPGet != nil:
		if p := hook.HTTPGet.Protocol; p != nil && *p != v1.HTTPProtocolHTTP1 {
			r.add(at+".httpGet.protocol", "container "+c.Name+": hooks speak HTTP/1.1")
		}
	case hook.TCPSocket != nil && hook.Sleep == nil:
		r.add(at+".tcpSocket", "container "+c.Name+": Kubernetes has no tcpSocket hooks")
	}
}

// refusals collects the fields that cannot be honoured.
type refusals struct{ fields []string }

func (r *refusals) add(field, why string) { r.fields = append(r.fields, field+" ("+why+")") }

func (r *refusals) err() error {
	if len(r.fields) == 0 {
		return nil
	}
	return &UnsupportedError{Fields: r.fields}
}
