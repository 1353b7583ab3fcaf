// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/internal/httpaction"
	"github.com/keelson-dev/keelson/prober"
)

// addressOf returns the address to which a probe of t connects.
func addressOf(t prober.Target, host string, port intstr.IntOrString) (string, error) {
	host = cmp.Or(host, t.Instance.PodIP)
	if host == "" {
		return "", ErrNoPodIP
	}
	return httpaction.Address(host, port, t.Container)
}
