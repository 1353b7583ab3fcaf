// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// manifestOf returns a manifest of a Service with a spec, and of pods with specs of their own that the
// Service selects.
func manifestOf(service string, pods ...string) []byte {
	text := "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {selector: {a: b}, " + service + "}\n"
	for i, spec := range pods {
		text += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d, labels: {a: b}}\nspec: {%s}\n", i, spec)
	}
	return []byte(text)
}

// container is the spec of a pod whose container has ports.
func container(ports string) string {
	return "containers: [{name: c, image: i, ports: [" + ports + "]}]"
}

// A Service with ports of the node is honoured if its pod listens at these ports of the node, and
// refused with a remedy otherwise.
func TestPortsOfTheNode(t *testing.T) {
	const (
		balancer = "type: LoadBalancer, ports: [{port: 80}]"
		byName   = "type: LoadBalancer, ports: [{port: 80, targetPort: http}]"
		forwards = "4:32: spec.type: LoadBalancer refused, this node forwards no ports: set hostPort 80, without a hostIP, in pod p0-n, or remove the type"
	)
	host, plain := "hostNetwork: true, "+container(""), container("{containerPort: 80}")
	onHost := container("{containerPort: 80, hostPort: 80, name: http}")
	tests := []struct {
		name, service string
		pods          []string
		want          string // of a node with pod networks, "" if honoured
		without       string // of a node without pod networks
	}{
		{"host network", balancer, []string{host}, "", ""},
		{"host port", balancer, []string{onHost}, "", ""},
		{"a named port", byName, []string{onHost}, "", ""},
		{"all addresses", balancer, []string{container("{containerPort: 80, hostPort: 80, hostIP: 0.0.0.0}")}, "", ""},
		{"a port of a sidecar", byName, []string{"initContainers: [{name: d, image: i, restartPolicy: Always, ports: [{containerPort: 80, hostPort: 80, name: http}]}], " + container("")}, "", ""},
		{"a single address", balancer, []string{container("{containerPort: 80, hostPort: 80, hostIP: 127.0.0.1}")}, forwards, ""},
		{"pod network", balancer, []string{plain}, forwards, ""},
		{"another host port", balancer, []string{container("{containerPort: 80, hostPort: 8080}")}, forwards, ""},
		{"another protocol", balancer, []string{container("{containerPort: 80, hostPort: 80, protocol: UDP}")}, forwards, ""},
		{"a port of an init container", balancer, []string{"initContainers: [{name: d, image: i, ports: [{containerPort: 80, hostPort: 80}]}], " + container("")}, forwards, ""},
		{"translated", "type: LoadBalancer, ports: [{port: 80, targetPort: 8080}]", []string{host}, "spec.ports[0].targetPort: this node translates no ports: set port to 8080, or let the pod listen on 80", "spec.ports[0].targetPort"},
		{"translated by name", byName, []string{container("{containerPort: 8080, hostPort: 80, name: http}")}, "spec.ports[0].targetPort: this node translates no ports: set port to 8080, or let the pod listen on 80", "spec.ports[0].targetPort"},
		{"the second pod", byName, []string{onHost, container("{containerPort: 81, name: http}")}, "this node translates no ports: set port to 81", "set port to 81"},
		{"the second port", "type: LoadBalancer, ports: [{port: 80, name: a}, {port: 81, name: b}]", []string{onHost}, "set hostPort 81, without a hostIP, in pod p0-n", ""},
		{"a pod without the named port", byName, []string{onHost, container("{containerPort: 81}")}, "", ""},
		{"two pods", balancer, []string{host, host}, "4:32: spec.type: LoadBalancer refused, 2 pods of a node cannot have the same port 80: select a single pod, or remove the type", "2 pods of a node"},
		{"no pod", balancer, nil, "4:32: spec.type: LoadBalancer refused, it selects no pod of this manifest: put the Service and its pod into the same manifest", "selects no pod"},
		{"no port", "type: LoadBalancer", []string{host}, "spec.ports: Required value: the ports of the LoadBalancer", "spec.ports"},
		{"headless", balancer + ", clusterIP: None", []string{host}, "4:32: spec.type: LoadBalancer refused, a headless Service has no port", "headless"},
		{"an allocated port", "type: LoadBalancer, ports: [{port: 80, nodePort: 30080}]", []string{host}, "4:75: spec.ports[0].nodePort: this node translates no ports: remove it, or let the pod listen on 30080", "nodePort"},
		{"node port", "type: NodePort, ports: [{port: 30080, nodePort: 30080}]", []string{host}, "", ""},
		{"another node port", "type: NodePort, ports: [{port: 80, nodePort: 30080}]", []string{host}, "4:71: spec.ports[0].nodePort: this node translates no ports", "nodePort"},
		{"a chosen node port", "type: NodePort, ports: [{port: 80}]", []string{host}, "4:32: spec.type: NodePort refused, this node chooses no ports: set nodePort to 80, or remove the type", "chooses no ports"},
		{"node port in the pod network", "type: NodePort, ports: [{port: 80, nodePort: 80}]", []string{plain}, "4:32: spec.type: NodePort refused, this node forwards no ports: set hostPort 80", ""},
		{"node port without the type", "ports: [{port: 80, nodePort: 30080}]", []string{host}, "spec.ports[0].nodePort: this node translates no ports", "nodePort"},
		{"external name", "type: ExternalName, externalName: example.com", nil, "4:32: spec.type: ExternalName refused, this node answers no questions of DNS", "ExternalName"},
		{"unknown type", "type: Cluster", nil, "4:32: spec.type: want ClusterIP, NodePort or LoadBalancer", "want"},
		{"allowed clients", balancer + ", loadBalancerSourceRanges: [10.0.0.0/8]", []string{host}, "spec.loadBalancerSourceRanges: this node filters no traffic", "filters"},
		{"another balancer", balancer + ", loadBalancerClass: example.com/x", []string{host}, "spec.loadBalancerClass: this node has no other load balancers", "Class"},
		{"address", balancer + ", loadBalancerIP: 192.0.2.1", []string{host}, "spec.loadBalancerIP: the pods listen on the addresses of this node", "IP"},
		{"health checks", balancer + ", healthCheckNodePort: 30001, externalTrafficPolicy: Local", []string{host}, "spec.healthCheckNodePort: this node answers no health checks", "health"},
		{"no allocated ports", balancer + ", allocateLoadBalancerNodePorts: false, externalTrafficPolicy: Local", []string{host}, "", ""},
	}
	for _, tt := range tests {
		for _, onlyHost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", tt.name, onlyHost), func(t *testing.T) {
				x := expander()
				x.Decoder.OnlyHostNetwork = onlyHost
				set, err := x.Expand(manifestOf(tt.service, tt.pods...), origin)
				want := tt.want
				if onlyHost {
					want = tt.without
				}
				if want != "" {
					require.ErrorContains(t, err, want)
					return
				}
				require.NoError(t, err)
				assert.Len(t, set.Services, 1)
				assert.Empty(t, set.Notices)
			})
		}
	}
}

func TestAllowedClientsInTheAnnotation(t *testing.T) {
	text := strings.Replace(string(manifestOf("type: LoadBalancer, ports: [{port: 80}]", "hostNetwork: true, "+container(""))),
		"{name: s}", "{name: s, annotations: {service.beta.kubernetes.io/load-balancer-source-ranges: 10.0.0.0/8}}", 1)
	_, err := expander().Expand([]byte(text), origin)
	require.ErrorContains(t, err, "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: this node filters no traffic")
}

// A Deployment behind a port of the node can be stopped and started. With a second replica it is
// refused.
func TestReplicasBehindAPortOfTheNode(t *testing.T) {
	for n, want := range []string{"", "", "2 pods of a node"} {
		text := core + "kind: Service\nspec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}\n---\n" +
			apps + fmt.Sprintf("kind: Deployment\nspec: {replicas: %d, ", n) + selector + strings.Replace(template, "containers", "hostNetwork: true, containers", 1) + "}"
		set, err := expander().Expand([]byte(text), origin)
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		assert.Len(t, set.Pods, n)
	}
}

// A random Service is honoured exactly if a client at the Service's port of the node, and a client at
// the same port of the pod, reach the target port of the only pod. The test lists the open ports of the node.
func TestPortsOfTheNodeAreOpen(t *testing.T) {
	const ports = 3
	honoured := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		port, target, byName, onlyHost := r.IntN(ports)+1, r.IntN(ports)+1, r.IntN(2) == 0, r.IntN(4) == 0
		var pods []string
		var reached []bool // by a client of each pod with the target
		for range r.IntN(3) {
			number, hostPort, hostNetwork, hasName := r.IntN(ports)+1, r.IntN(ports+1), r.IntN(2) == 0, r.IntN(3) > 0
			if hostNetwork {
				hostPort = number
			}
			spec := fmt.Sprintf("{containerPort: %d", number)
			if hostPort > 0 {
				spec += fmt.Sprintf(", hostPort: %d", hostPort)
			}
			if hasName {
				spec += ", name: http"
			}
			pods = append(pods, fmt.Sprintf("hostNetwork: %t, ", hostNetwork || onlyHost)+container(spec+"}"))
			open := map[int]int{} // port of the pod by port of the node
			for n := range ports + 1 {
				if hostNetwork || onlyHost {
					open[n] = n
				}
			}
			if !hostNetwork && !onlyHost && hostPort > 0 {
				open[hostPort] = number
			}
			want := target
			if byName {
				want = number
			}
			if !byName || hasName {
				reached = append(reached, port == want && open[port] == want)
			}
		}
		if onlyHost && strings.Contains(fmt.Sprint(pods), "hostPort") {
			continue // a pod on the host's network has no other hostPort
		}
		service := fmt.Sprintf("type: LoadBalancer, ports: [{port: %d, targetPort: %d}]", port, target)
		if byName {
			service = fmt.Sprintf("type: LoadBalancer, ports: [{port: %d, targetPort: http}]", port)
		}
		x := expander()
		x.Decoder.OnlyHostNetwork = onlyHost
		_, err := x.Expand(manifestOf(service, pods...), origin)
		want := len(reached) == 1 && reached[0]
		require.Equal(t, want, err == nil, "seed %d: %s of %q: %v", seed, service, pods, err)
		if want {
			honoured++
		}
	}
	require.Greater(t, honoured, 100)
}
