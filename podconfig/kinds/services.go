// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// service is a Service with its document, for the check of ports.
type service struct {
	*v1.Service
	doc *manifest.Document
}

func (e *expansion) addService() {
	var s v1.Service
	if !e.decode(&s) || !e.name(&s.ObjectMeta, maxObjectName) {
		return
	}
	if s.Spec.Type == "" {
		s.Spec.Type = v1.ServiceTypeClusterIP
	}
	field, text := "", ""
	switch spec := &s.Spec; {
	case spec.Type != v1.ServiceTypeClusterIP:
		field, text = "spec.type", fmt.Sprintf("%s refused, this node forwards no ports: remove the type, and set hostPort in the pods", spec.Type)
	case len(spec.Selector) == 0:
		field, text = "spec.selector", "Required value: the labels of pods of this node"
	case spec.ClusterIP != "" && spec.ClusterIP != v1.ClusterIPNone, len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] != v1.ClusterIPNone:
		field, text = "spec.clusterIP", "a Service of this node has the address of its pod: remove it"
	case len(spec.ExternalIPs) > 0:
		field, text = "spec.externalIPs", "this node forwards no ports: set hostPort in the pods"
	}
	if field != "" {
		e.refuse(field, text)
		return
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Port < 1 || p.Port > 65535 {
			e.refuse(fmt.Sprintf("spec.ports[%d].port", i), "want 1 to 65535")
			return
		}
		if p.TargetPort == (intstr.IntOrString{}) {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
		if p.Protocol == "" {
			p.Protocol = v1.ProtocolTCP
		}
	}
	e.services = append(e.services, service{&s, e.doc})
	e.set.Services = append(e.set.Services, &s)
}

// checkServices refuses ports that the pods do not have. No proxy of this node translates a port.
func (e *expansion) checkServices() {
	for _, s := range e.services {
		e.doc = s.doc
		for i, p := range s.Spec.Ports {
			target := p.TargetPort.IntVal
			if p.TargetPort.Type == intstr.String {
				target = e.namedPort(s.Service, p.TargetPort.StrVal)
			}
			field := fmt.Sprintf("spec.ports[%d].targetPort", i)
			switch {
			case target == 0:
				e.refuse(field, fmt.Sprintf("no selected pod of this manifest has a port %q: write its number", p.TargetPort.StrVal))
			case target != p.Port:
				e.refuse(field, fmt.Sprintf("this node translates no ports: set port to %d, or let the pod listen on %d", target, p.Port))
			}
		}
	}
}

// namedPort returns the number of a port of the selected pods, 0 if there is none.
func (e *expansion) namedPort(s *v1.Service, name string) int32 {
	for _, pod := range e.set.Pods {
		if pod.Namespace != s.Namespace || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			continue
		}
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				if p.Name == name {
					return p.ContainerPort
				}
			}
		}
	}
	return 0
}
