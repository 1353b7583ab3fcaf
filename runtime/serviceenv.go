// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubernetesService is the Service of the API server itself, in namespace "default". In-cluster
// clients use its variables.
const kubernetesService = "kubernetes"

// serviceEnv returns the variables of Services for the containers of pod, as set by the kubelet
// 1.36. Every Service of the pod's namespace has variables, unless enableServiceLinks is false. The
// Service kubernetes of namespace default always has variables, unless the pod's namespace has a
// suitable Service of that name. Services without a cluster IP, and Services of other namespaces,
// have none.
//
// The Service "web-1" on 10.0.0.7 with port 80 named http makes WEB_1_SERVICE_HOST,
// WEB_1_SERVICE_PORT, WEB_1_SERVICE_PORT_HTTP, WEB_1_PORT and WEB_1_PORT_80_TCP with _PROTO, _PORT
// and _ADDR. The variables are ordered by the Service's name. If two Services make the same
// variable, as "a" and "a-service" make A_SERVICE_PORT, the first counts. services is not modified.
func serviceEnv(pod *v1.Pod, services []*v1.Service) []EnvVar {
	var vars serviceVars
	for _, s := range visibleServices(pod, services) {
		vars.add(s)
	}
	return vars.all
}

// visibleServices returns the Services with variables, sorted by name. Names are unique.
func visibleServices(pod *v1.Pod, services []*v1.Service) []*v1.Service {
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	var seen []*v1.Service
	for _, s := range services {
		switch {
		case s.Spec.ClusterIP == "" || s.Spec.ClusterIP == v1.ClusterIPNone:
		case links && s.Namespace == pod.Namespace:
			seen = append(seen, s)
		case s.Namespace == metav1.NamespaceDefault && s.Name == kubernetesService:
			seen = append(seen, s)
		}
	}
	slices.SortStableFunc(seen, func(a, b *v1.Service) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), own(b, pod)-own(a, pod))
	})
	return slices.CompactFunc(seen, func(a, b *v1.Service) bool { return a.Name == b.Name })
}

// own returns 1 for a Service of the pod's own namespace.
func own(s *v1.Service, pod *v1.Pod) int {
	if s.Namespace == pod.Namespace {
		return 1
	}
	return 0
}

// serviceVars is a list of variables with unique names.
type serviceVars struct {
	all  []EnvVar
	have map[string]bool
}

func (v *serviceVars) set(name, value string) {
	if v.have[name] {
		return
	}
	if v.have == nil {
		v.have = make(map[string]bool)
	}
	v.have[name] = true
	v.all = append(v.all, EnvVar{Name: name, Value: value})
}

func (v *serviceVars) add(s *v1.Service) {
	prefix, ip := variableName(s.Name), s.Spec.ClusterIP
	v.set(prefix+"_SERVICE_HOST", ip)
	for _, port := range s.Spec.Ports {
		number := strconv.Itoa(int(port.Port))
		v.set(prefix+"_SERVICE_PORT", number) // the first port: set keeps the first value
		if port.Name != "" {
			v.set(prefix+"_SERVICE_PORT_"+variableName(port.Name), number)
		}
	}
	for _, port := range s.Spec.Ports {
		number, protocol := strconv.Itoa(int(port.Port)), string(cmp.Or(port.Protocol, v1.ProtocolTCP))
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, number)
		v.set(prefix+"_PORT", url)
		link := fmt.Sprintf("%s_PORT_%s_%s", prefix, number, strings.ToUpper(protocol))
		v.set(link, url)
		v.set(link+"_PROTO", strings.ToLower(protocol))
		v.set(link+"_PORT", number)
		v.set(link+"_ADDR", ip)
	}
}

// variableName returns name in the form used within a variable's name.
func variableName(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
