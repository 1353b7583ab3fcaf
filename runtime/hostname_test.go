// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestPodHostname(t *testing.T) {
	ptr := func(s string) *string { return &s }
	yes, no := true, false
	long := strings.Repeat("x", 62)
	for _, tc := range []struct {
		name, pod string
		spec      v1.PodSpec
		want, err string
	}{
		{name: "pod's name", pod: "web", want: "web"},
		{name: "pod's name with dots", pod: "web.v1", want: "web.v1"},
		{name: "63 bytes fit", pod: long + "y", want: long + "y"},
		{name: "cut", pod: long + "yz", want: long + "y"},
		{name: "cut and trimmed", pod: strings.Repeat("x", 60) + "-.-z", want: strings.Repeat("x", 60)},
		{name: "nothing left", pod: strings.Repeat("-", 64), err: "makes no hostname"},
		{name: "no name", pod: "", err: "makes no hostname"},
		{name: "hostname", pod: "web", spec: v1.PodSpec{Hostname: "db-0"}, want: "db-0"},
		{name: "bad hostname", pod: "web", spec: v1.PodSpec{Hostname: "a.b"}, err: `spec.hostname: "a.b"`},
		{name: "long hostname", pod: "web", spec: v1.PodSpec{Hostname: long + "yz"}, err: "spec.hostname"},
		{name: "subdomain does not show", pod: "web", spec: v1.PodSpec{Hostname: "db-0", Subdomain: "db"}, want: "db-0"},
		{name: "bad subdomain", pod: "web", spec: v1.PodSpec{Subdomain: "-"}, err: `spec.subdomain: "-"`},
		{name: "full name without subdomain", pod: "web", spec: v1.PodSpec{SetHostnameAsFQDN: &yes}, want: "web"},
		{name: "full name", pod: "web", spec: v1.PodSpec{Subdomain: "db", SetHostnameAsFQDN: &yes}, err: "spec.setHostnameAsFQDN: the cluster's domain is not known"},
		{name: "full name not wanted", pod: "web", spec: v1.PodSpec{Subdomain: "db", SetHostnameAsFQDN: &no}, want: "web"},
		{name: "override", pod: "web", spec: v1.PodSpec{HostnameOverride: ptr("a.example.org"), Hostname: "x", Subdomain: "y"}, want: "a.example.org"},
		{name: "override of 64 bytes", pod: "web", spec: v1.PodSpec{HostnameOverride: ptr("a." + long)}, want: "a." + long},
		{name: "override of 65 bytes", pod: "web", spec: v1.PodSpec{HostnameOverride: ptr("ab." + long)}, err: "spec.hostnameOverride"},
		{name: "bad override", pod: "web", spec: v1.PodSpec{HostnameOverride: ptr("A_b")}, err: `spec.hostnameOverride: "A_b"`},
		{name: "empty override", pod: "web", spec: v1.PodSpec{HostnameOverride: ptr("")}, want: "web"},
		{name: "host network", pod: "web", spec: v1.PodSpec{HostNetwork: true, Hostname: "x"}, want: ""},
		{name: "host network and override", pod: "web", spec: v1.PodSpec{HostNetwork: true, HostnameOverride: ptr("x")}, want: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: tc.spec}
			pod.Name = tc.pod
			got, err := podHostname(pod)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				assert.Empty(t, got)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestFullHostnameIsUnsupported(t *testing.T) {
	yes := true
	pod := &v1.Pod{Spec: v1.PodSpec{Subdomain: "db", SetHostnameAsFQDN: &yes}}
	pod.Name = "web"
	_, err := podHostname(pod)
	require.ErrorIs(t, err, ErrUnsupported)
}
