// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
)

// service makes a Service from "namespace/name IP port[/protocol][=name] …".
func service(t *testing.T, text string) *v1.Service {
	t.Helper()
	fields := strings.Fields(text)
	s := &v1.Service{}
	s.Namespace, s.Name, _ = strings.Cut(fields[0], "/")
	s.Spec.ClusterIP = strings.Trim(fields[1], `"`)
	for _, f := range fields[2:] {
		var p v1.ServicePort
		f, p.Name, _ = strings.Cut(f, "=")
		f, protocol, _ := strings.Cut(f, "/")
		p.Protocol = v1.Protocol(protocol)
		_, err := fmt.Sscan(f, &p.Port)
		require.NoError(t, err)
		s.Spec.Ports = append(s.Spec.Ports, p)
	}
	return s
}

func podIn(namespace string, links *bool) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.Spec.EnableServiceLinks = namespace, "web", links
	return pod
}

func printed(vars []EnvVar) string {
	var out []string
	for _, v := range vars {
		out = append(out, v.Name+"="+v.Value)
	}
	return strings.Join(out, " ")
}

func TestServiceEnv(t *testing.T) {
	const api = "default/kubernetes 10.0.0.1 443=https"
	const apiVars = "KUBERNETES_SERVICE_HOST=10.0.0.1 KUBERNETES_SERVICE_PORT=443 KUBERNETES_SERVICE_PORT_HTTPS=443 KUBERNETES_PORT=tcp://10.0.0.1:443 " +
		"KUBERNETES_PORT_443_TCP=tcp://10.0.0.1:443 KUBERNETES_PORT_443_TCP_PROTO=tcp KUBERNETES_PORT_443_TCP_PORT=443 KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1"
	no, yes := false, true
	for _, c := range []struct {
		name     string
		pod      *v1.Pod
		services []string
		want     string
	}{
		{"none", podIn("ns", nil), nil, ""},
		{"the API server's", podIn("ns", nil), []string{api}, apiVars},
		{"without links, too", podIn("ns", &no), []string{api, "ns/db 10.0.0.2 5432"}, apiVars},
		{"links", podIn("ns", &yes), []string{"ns/db-1 10.0.0.2 5432"}, "DB_1_SERVICE_HOST=10.0.0.2 DB_1_SERVICE_PORT=5432 DB_1_PORT=tcp://10.0.0.2:5432 " +
			"DB_1_PORT_5432_TCP=tcp://10.0.0.2:5432 DB_1_PORT_5432_TCP_PROTO=tcp DB_1_PORT_5432_TCP_PORT=5432 DB_1_PORT_5432_TCP_ADDR=10.0.0.2"},
		{"another namespace", podIn("ns", nil), []string{"other/db 10.0.0.2 5432"}, ""},
		{"another of default", podIn("ns", nil), []string{"default/db 10.0.0.2 5432"}, ""},
		{"no address", podIn("ns", nil), []string{`ns/none None 1`, `ns/empty "" 1`}, ""},
		{"no ports", podIn("ns", nil), []string{"ns/db 10.0.0.2"}, "DB_SERVICE_HOST=10.0.0.2"},
		{"IPv6 and UDP", podIn("ns", nil), []string{"ns/dns fd00::a 53/UDP=dns"}, "DNS_SERVICE_HOST=fd00::a DNS_SERVICE_PORT=53 DNS_SERVICE_PORT_DNS=53 DNS_PORT=udp://[fd00::a]:53 " +
			"DNS_PORT_53_UDP=udp://[fd00::a]:53 DNS_PORT_53_UDP_PROTO=udp DNS_PORT_53_UDP_PORT=53 DNS_PORT_53_UDP_ADDR=fd00::a"},
		{"kubernetes of its own namespace", podIn("ns", nil), []string{api, "ns/kubernetes 10.0.0.9"}, "KUBERNETES_SERVICE_HOST=10.0.0.9"},
		{"not without links", podIn("ns", &no), []string{"ns/kubernetes 10.0.0.9", api}, apiVars},
		{"nor without an address", podIn("ns", nil), []string{"ns/kubernetes None", api}, apiVars},
		{"of default itself", podIn("default", &no), []string{api, "default/db 10.0.0.2"}, apiVars},
		{"one variable of two", podIn("ns", nil), []string{"ns/a-service 10.0.0.3", "ns/a 10.0.0.2 1"}, "A_SERVICE_HOST=10.0.0.2 A_SERVICE_PORT=1 A_PORT=tcp://10.0.0.2:1 " +
			"A_PORT_1_TCP=tcp://10.0.0.2:1 A_PORT_1_TCP_PROTO=tcp A_PORT_1_TCP_PORT=1 A_PORT_1_TCP_ADDR=10.0.0.2 A_SERVICE_SERVICE_HOST=10.0.0.3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var services []*v1.Service
			for _, text := range c.services {
				services = append(services, service(t, text))
			}
			assert.Equal(t, c.want, printed(serviceEnv(c.pod, services)))
			slices.Reverse(services)
			assert.Equal(t, c.want, printed(serviceEnv(c.pod, services)), "in another order")
		})
	}
}

// A second port, and one of the same number: each of protocol and number once.
func TestServiceEnvOfManyPorts(t *testing.T) {
	vars := serviceEnv(podIn("ns", nil), []*v1.Service{service(t, "ns/dns 10.0.0.2 53/UDP=dns 53/TCP=dns-tcp 9153=metrics")})
	have := make(map[string]string)
	for _, v := range vars {
		require.NotContains(t, have, v.Name)
		have[v.Name] = v.Value
	}
	for name, value := range map[string]string{
		"DNS_SERVICE_PORT": "53", "DNS_SERVICE_PORT_DNS_TCP": "53", "DNS_SERVICE_PORT_METRICS": "9153",
		"DNS_PORT": "udp://10.0.0.2:53", "DNS_PORT_53_TCP": "tcp://10.0.0.2:53", "DNS_PORT_53_UDP": "udp://10.0.0.2:53", "DNS_PORT_9153_TCP_PORT": "9153",
	} {
		assert.Equal(t, value, have[name], name)
	}
}

// Whatever there is: names can be variables' names, each is there once, and values
// are those of a Service that the pod may see.
func TestServiceEnvOfAnything(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for range casetest.Rounds(2000) {
		links := r.IntN(2) == 0
		pod := podIn(pick("ns", "default"), &links)
		var services []*v1.Service
		allowed := make(map[string]bool)
		for range r.IntN(6) {
			s := service(t, pick("ns", "default", "other")+"/"+pick("kubernetes", "a", "a-service", "b-1")+" "+
				pick("None", "10.0.0."+pick("1", "2", "3"), "fd00::1")+pick("", " 80", " 80=http 443=https", " 53/UDP 53/TCP"))
			services = append(services, s)
			if links && s.Namespace == pod.Namespace || s.Namespace == "default" && s.Name == "kubernetes" {
				allowed[s.Spec.ClusterIP] = true
			}
		}
		names := make(map[string]bool)
		for _, v := range serviceEnv(pod, services) {
			require.Regexp(t, `^[A-Z0-9_]+$`, v.Name)
			require.False(t, names[v.Name], v.Name)
			names[v.Name] = true
			if strings.HasSuffix(v.Name, "_SERVICE_HOST") {
				require.True(t, allowed[v.Value], "%s of %v", v.Value, services)
				require.NoError(t, func() error { _, err := netip.ParseAddr(v.Value); return err }())
			}
		}
	}
}

func TestServiceVariablesAmongOthers(t *testing.T) {
	var asked string
	var services []*v1.Service
	var fails error
	g, err := NewDefaultGenerator(DefaultGeneratorOptions{LogRoot: "/logs", Services: func(_ context.Context, pod *v1.Pod) ([]*v1.Service, error) {
		asked = pod.Name
		return services, fails
	}})
	require.NoError(t, err)
	services = []*v1.Service{service(t, "ns/db 10.0.0.2")}
	c := v1.Container{Name: "c", Command: []string{"connect", "$(DB_SERVICE_HOST)"}, Env: []v1.EnvVar{
		{Name: "URL", Value: "db://$(DB_SERVICE_HOST)/x"},
		{Name: "LATER", Value: "$(NOTHING)"},
	}}
	pod := podOf(c)
	pod.Namespace = "ns"
	spec, _, err := g.Container(t.Context(), pod, Ref{Group: GroupRegular}, ContainerInput{})
	require.NoError(t, err)
	assert.Equal(t, "URL=db://10.0.0.2/x LATER=$(NOTHING) DB_SERVICE_HOST=10.0.0.2", printed(spec.Env), "they come last")
	assert.Equal(t, []string{"connect", "10.0.0.2"}, spec.Command)
	assert.Equal(t, pod.Name, asked)

	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "BEFORE", Value: "$(DB_SERVICE_HOST)"}, {Name: "DB_SERVICE_HOST", Value: "mine"}, {Name: "AFTER", Value: "$(DB_SERVICE_HOST)"}}
	spec, _, err = g.Container(t.Context(), pod, Ref{Group: GroupRegular}, ContainerInput{})
	require.NoError(t, err)
	assert.Equal(t, "BEFORE=10.0.0.2 DB_SERVICE_HOST=mine AFTER=mine", printed(spec.Env), "the pod's own win")

	fails = errors.New("nobody knows")
	_, _, err = g.Container(t.Context(), pod, Ref{Group: GroupRegular}, ContainerInput{})
	require.EqualError(t, err, "spec.containers[0].env: variables of Services: nobody knows")
	fails = nil
	services = []*v1.Service{service(t, "ns/db 10.0.0.2")}
	services[0].Spec.ClusterIP = strings.Repeat("1", maxProcessStrings)
	pod.Spec.Containers[0].Env = nil
	_, _, err = g.Container(t.Context(), pod, Ref{Group: GroupRegular}, ContainerInput{})
	require.EqualError(t, err, "spec.containers[0].env: variables of Services: environment, command and args are larger than 8 MiB")
}
