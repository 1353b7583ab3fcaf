// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"fmt"
	"net"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/prober"
)

// addressOf is where a probe of t goes.
func addressOf(t prober.Target, host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = t.Instance.PodIP
	}
	if host == "" {
		return "", ErrNoPodIP
	}
	number, err := portOf(port, t.Container)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// portOf resolves a port number, a port name of the container, or a port number written as text.
func portOf(port intstr.IntOrString, c *v1.Container) (int, error) {
	number := int(port.IntVal)
	if port.Type == intstr.String {
		number = namedPort(port.StrVal, c)
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("port %q is neither a port number nor a port of container %s", port.String(), c.Name)
	}
	return number, nil
}

func namedPort(name string, c *v1.Container) int {
	for i := range c.Ports {
		if c.Ports[i].Name == name {
			return int(c.Ports[i].ContainerPort)
		}
	}
	number, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return number
}
