// SPDX-License-Identifier: Apache-2.0

package pasta

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
)

func TestArgs(t *testing.T) {
	const always = "--foreground --quiet --config-net --no-map-gw --tcp-ns none --udp-ns none "
	port := func(host, container int32, protocol v1.Protocol, ip string) v1.ContainerPort {
		return v1.ContainerPort{HostPort: host, ContainerPort: container, Protocol: protocol, HostIP: ip}
	}
	for name, tt := range map[string]struct {
		init, ports []v1.ContainerPort
		addresses   []string
		resolve     bool
		want        string
	}{
		"nothing":         {want: "--tcp-ports none --udp-ports none"},
		"no host port":    {ports: []v1.ContainerPort{port(0, 80, "", "")}, want: "--tcp-ports none --udp-ports none"},
		"both protocols":  {ports: []v1.ContainerPort{port(8080, 80, "", ""), port(53, 53, v1.ProtocolUDP, "")}, want: "--tcp-ports 8080:80 --udp-ports 53:53"},
		"several":         {ports: []v1.ContainerPort{port(1, 80, "", ""), port(2, 81, v1.ProtocolTCP, "")}, want: "--tcp-ports 1:80 --tcp-ports 2:81 --udp-ports none"},
		"init containers": {init: []v1.ContainerPort{port(1, 80, "", "")}, ports: []v1.ContainerPort{port(1, 80, "", ""), port(2, 81, "", "")}, want: "--tcp-ports 1:80 --tcp-ports 2:81 --udp-ports none"},
		"host IPs": {ports: []v1.ContainerPort{port(1, 80, "", "127.0.0.1"), port(1, 80, "", "10.0.0.1"), port(2, 81, "", "0.0.0.0"), port(3, 82, "", "::")},
			want: "--tcp-ports 127.0.0.1/1:80 --tcp-ports 10.0.0.1/1:80 --tcp-ports 2:81 --tcp-ports 3:82 --udp-ports none"},
		"addresses": {addresses: []string{"2001:db8::1", "10.0.0.1", "10.0.0.2", "2001:db8::2", "no address"}, want: "--address 2001:db8::1 --address 10.0.0.1 --tcp-ports none --udp-ports none"},
		"resolve":   {resolve: true, want: "--dns-forward 169.254.1.1 --tcp-ports none --udp-ports none"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Ports: tt.init}}, Containers: []v1.Container{{Ports: tt.ports}}}}
			assert.Equal(t, always+tt.want, strings.Join(Args(pod, tt.addresses, tt.resolve), " "))
		})
	}
}

func TestResolvConf(t *testing.T) {
	for name, tt := range map[string]struct{ host, pod string }{
		"reachable":      {"search a b\nnameserver 10.0.0.1\nnameserver 127.0.0.1\n", ""},
		"none":           {"options ndots:5\n", ""},
		"empty":          {"", ""},
		"commented":      {"#nameserver 127.0.0.1\nnameserver 10.0.0.1\n", ""},
		"loopback":       {"search a b\nnameserver 127.0.0.53\noptions edns0\n", "search a b\nnameserver 169.254.1.1\noptions edns0\n"},
		"several":        {"nameserver 127.0.0.53\nnameserver 10.0.0.1\nnameserver ::1", "nameserver 169.254.1.1\n"},
		"IPv6":           {"nameserver\t::1\nsearch x", "nameserver 169.254.1.1\nsearch x"},
		"no end of line": {"nameserver 127.0.0.1", "nameserver 169.254.1.1\n"},
		"a bare word":    {"nameserver\nnameserver 127.0.0.1\n", "nameserver\nnameserver 169.254.1.1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, changed := ResolvConf(tt.host)
			assert.Equal(t, tt.pod != "", changed)
			if !changed {
				tt.pod = tt.host
			}
			assert.Equal(t, tt.pod, pod)
			again, changed := ResolvConf(pod)
			assert.Equal(t, pod, again)
			assert.False(t, changed)
		})
	}
}
