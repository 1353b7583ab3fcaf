// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"fmt"
	"slices"

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
	s.Spec.Type = cmp.Or(s.Spec.Type, v1.ServiceTypeClusterIP)
	if field, text := unmetField(&s); field != "" {
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
		p.Protocol = cmp.Or(p.Protocol, v1.ProtocolTCP)
	}
	e.services = append(e.services, service{&s, e.doc})
	e.set.Services = append(e.set.Services, &s)
}

// unmetField returns a field of a Service that no node honours, with the remedy, or "".
func unmetField(s *v1.Service) (field, text string) {
	spec := &s.Spec
	headless := spec.ClusterIP == v1.ClusterIPNone || len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] == v1.ClusterIPNone
	_, hasRanges := s.Annotations[v1.AnnotationLoadBalancerSourceRangesKey]
	switch {
	case spec.Type == v1.ServiceTypeExternalName:
		return "spec.type", "ExternalName refused, this node answers no questions of DNS: write the external name into the pods"
	case !slices.Contains([]v1.ServiceType{v1.ServiceTypeClusterIP, v1.ServiceTypeNodePort, v1.ServiceTypeLoadBalancer}, spec.Type):
		return "spec.type", "want ClusterIP, NodePort or LoadBalancer"
	case len(spec.Selector) == 0:
		return "spec.selector", "Required value: the labels of pods of this node"
	case !headless && (spec.ClusterIP != "" || len(spec.ClusterIPs) > 0):
		return "spec.clusterIP", "a Service of this node has the address of its pod: remove it"
	case headless && opensPorts(s):
		return "spec.type", fmt.Sprintf("%s refused, a headless Service has no port of the node: remove the type, or clusterIP", spec.Type)
	case len(spec.ExternalIPs) > 0:
		return "spec.externalIPs", "this node forwards no ports: set hostPort in the pods"
	case len(spec.LoadBalancerSourceRanges) > 0:
		return "spec.loadBalancerSourceRanges", unfiltered
	case hasRanges:
		return "metadata.annotations[" + v1.AnnotationLoadBalancerSourceRangesKey + "]", unfiltered
	case spec.LoadBalancerClass != nil:
		return "spec.loadBalancerClass", "this node has no other load balancers: remove it"
	case spec.LoadBalancerIP != "":
		return "spec.loadBalancerIP", "the pods listen on the addresses of this node: remove it"
	case spec.HealthCheckNodePort != 0:
		return "spec.healthCheckNodePort", "this node answers no health checks of Services: remove it"
	case opensPorts(s) && len(spec.Ports) == 0:
		return "spec.ports", fmt.Sprintf("Required value: the ports of the %s", spec.Type)
	}
	return "", ""
}

const unfiltered = "this node filters no traffic, and without the ranges every address may connect: use the firewall of the node, and remove it"

// opensPorts reports whether clients outside of the node reach a Service at ports of the node.
func opensPorts(s *v1.Service) bool {
	return s.Spec.Type == v1.ServiceTypeNodePort || s.Spec.Type == v1.ServiceTypeLoadBalancer
}

// checkServices refuses ports that the pods do not have. No proxy of this node translates or forwards
// a port. All pods of the manifest are known by now. A change of a pod is another manifest, and is
// checked again.
func (e *expansion) checkServices() {
	incomplete := len(e.problems) > 0
	for _, s := range e.services {
		e.doc = s.doc
		pods := e.selected(s.Service)
		if len(pods) == 0 && incomplete {
			continue // its pod may be among the other problems
		}
		for i := range s.Spec.Ports {
			if field, text := unmetPort(s.Service, i, pods, e.Decoder.OnlyHostNetwork); field != "" {
				e.refuse(field, text)
				break // the other ports often have the same problem
			}
		}
	}
}

// selectedPod is a pod that a Service selects.
type selectedPod struct {
	*v1.Pod
	absent bool // a pod template without pods at the moment, such as one with 0 replicas
}

// selected returns the pods of this manifest that a Service selects.
func (e *expansion) selected(s *v1.Service) (all []selectedPod) {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	add := func(pod *v1.Pod, absent bool) {
		if pod.Namespace == s.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			all = append(all, selectedPod{pod, absent})
		}
	}
	for _, pod := range e.set.Pods {
		add(pod, false)
	}
	for _, pod := range e.absent {
		add(pod, true)
	}
	for _, job := range e.set.Jobs {
		add(job.Pod, false)
	}
	for _, cron := range e.set.CronJobs {
		add(cron.Job.Pod, false)
	}
	return all
}
