// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func fieldSources() *envSources {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "ns", "web", "u-1"
	pod.Labels = map[string]string{"app": "web", "example.com/tier": "front"}
	pod.Annotations = map[string]string{"Note": "hi", "example.com/x": "y", "Example.COM/X": "z"}
	pod.Spec.NodeName, pod.Spec.ServiceAccountName = "node-1", "robot"
	return &envSources{pod: pod, container: &v1.Container{}, hostIPs: []string{"10.0.0.1", "fd00::1"}, podIPs: []string{"fd00::7", "10.1.0.7"}}
}

func TestFieldRef(t *testing.T) {
	for _, tc := range []struct{ path, want, err string }{
		{path: "metadata.name", want: "web"},
		{path: "metadata.namespace", want: "ns"},
		{path: "metadata.uid", want: "u-1"},
		{path: "metadata.labels['app']", want: "web"},
		{path: "metadata.labels['example.com/tier']", want: "front"},
		{path: "metadata.labels['missing']", want: ""},
		{path: "metadata.annotations['Note']", want: "hi"},
		{path: "metadata.annotations['example.com/x']", want: "y"},
		{path: "metadata.annotations['Example.COM/X']", want: "z"},
		{path: "spec.nodeName", want: "node-1"},
		{path: "spec.host", want: "node-1"},
		{path: "spec.serviceAccountName", want: "robot"},
		{path: "status.hostIP", want: "10.0.0.1"},
		{path: "status.hostIPs", want: "10.0.0.1,fd00::1"},
		{path: "status.podIP", want: "10.1.0.7"},
		{path: "status.podIPs", want: "10.1.0.7,fd00::7"},

		{path: "", err: `unsupported fieldPath ""`},
		{path: "metadata.labels", err: "metadata.labels as a whole is for volumes only; name one key: metadata.labels['key']"},
		{path: "metadata.annotations", err: "metadata.annotations as a whole is for volumes only; name one key: metadata.annotations['key']"},
		{path: "metadata.generateName", err: `unsupported fieldPath "metadata.generateName"`},
		{path: "spec.restartPolicy", err: `unsupported fieldPath "spec.restartPolicy"`},
		{path: "metadata.name['x']", err: `unsupported fieldPath "metadata.name['…']"`},
		{path: "metadata.labels['']", err: `invalid key "" of metadata.labels`},
		{path: "metadata.labels['a b']", err: `invalid key "a b" of metadata.labels`},
		{path: "metadata.labels['Example.COM/X']", err: `invalid key "Example.COM/X" of metadata.labels`},
		{path: "metadata.labels['app'", err: `unsupported fieldPath "metadata.labels['app'"`},
		{path: "metadata.labels[app]", err: `unsupported fieldPath "metadata.labels[app]"`},
		{path: "['app']", err: `unsupported fieldPath "['app']"`},
	} {
		t.Run(tc.path, func(t *testing.T) {
			got, err := fieldSources().fieldRef(&v1.ObjectFieldSelector{FieldPath: tc.path})
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

func TestFieldRefAPIVersion(t *testing.T) {
	got, err := fieldSources().fieldRef(&v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"})
	require.NoError(t, err)
	assert.Equal(t, "web", got)
	_, err = fieldSources().fieldRef(&v1.ObjectFieldSelector{APIVersion: "v2", FieldPath: "metadata.name"})
	require.EqualError(t, err, `unsupported apiVersion "v2"`)
}

func TestPodAndHostAddresses(t *testing.T) {
	list := func(ips ...string) []string { return ips }
	for _, tc := range []struct {
		name         string
		pod, host    []string
		hostNetwork  bool
		wantIP, want string
	}{
		{name: "none yet", host: list("10.0.0.1")},
		{name: "one", pod: list("10.1.0.7"), host: list("10.0.0.1"), wantIP: "10.1.0.7", want: "10.1.0.7"},
		{name: "node's primary family first", pod: list("10.1.0.7", "fd00::7"), host: list("fd00::1", "10.0.0.1"), wantIP: "fd00::7", want: "fd00::7,10.1.0.7"},
		{name: "node unknown: as given", pod: list("fd00::7", "10.1.0.7"), wantIP: "fd00::7", want: "fd00::7,10.1.0.7"},
		{name: "one per family", pod: list("10.1.0.7", "10.1.0.8", "fd00::7", "fd00::8"), host: list("10.0.0.1"), wantIP: "10.1.0.7", want: "10.1.0.7,fd00::7"},
		{name: "only the other family", pod: list("fd00::7"), host: list("10.0.0.1"), wantIP: "fd00::7", want: "fd00::7"},
		{name: "canonical", pod: list("::ffff:10.1.0.7", "FD00:0::7"), host: list("10.0.0.1"), wantIP: "10.1.0.7", want: "10.1.0.7,fd00::7"},
		{name: "not addresses", pod: list("x", "", "10.1.0.7"), wantIP: "10.1.0.7", want: "10.1.0.7"},
		{name: "host network", host: list("10.0.0.1", "fd00::1"), hostNetwork: true, wantIP: "10.0.0.1", want: "10.0.0.1,fd00::1"},
		{name: "host network, reported", pod: list("10.0.0.9"), host: list("10.0.0.1"), hostNetwork: true, wantIP: "10.0.0.9", want: "10.0.0.9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := fieldSources()
			s.podIPs, s.hostIPs, s.pod.Spec.HostNetwork = tc.pod, tc.host, tc.hostNetwork
			one, err := s.fieldRef(&v1.ObjectFieldSelector{FieldPath: "status.podIP"})
			require.NoError(t, err)
			all, err := s.fieldRef(&v1.ObjectFieldSelector{FieldPath: "status.podIPs"})
			require.NoError(t, err)
			assert.Equal(t, tc.wantIP, one)
			assert.Equal(t, tc.want, all)
		})
	}
	s := fieldSources()
	s.hostIPs = nil
	for _, path := range []string{"status.hostIP", "status.hostIPs"} {
		_, err := s.fieldRef(&v1.ObjectFieldSelector{FieldPath: path})
		require.EqualError(t, err, path+": the addresses of this node are not known")
	}
}

func amounts(pairs ...string) v1.ResourceList {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func resourceSources() *envSources {
	pod := &v1.Pod{}
	pod.Spec.Containers = []v1.Container{
		{Name: "own", Resources: v1.ResourceRequirements{
			Limits:   amounts("cpu", "1500m", "memory", "100Mi", "hugepages-2Mi", "4Mi"),
			Requests: amounts("cpu", "250m", "memory", "64Mi", "ephemeral-storage", "1500M"),
		}},
		{Name: "bare"},
	}
	pod.Spec.InitContainers = []v1.Container{{Name: "setup", Resources: v1.ResourceRequirements{Limits: amounts("cpu", "2")}}}
	return &envSources{
		pod: pod, container: &pod.Spec.Containers[0],
		allocatable: amounts("cpu", "3900m", "memory", "7Gi", "hugepages-1Gi", "2Gi"),
	}
}

func TestResourceFieldRef(t *testing.T) {
	for _, tc := range []struct{ name, resource, container, divisor, want, err string }{
		{name: "rounded up", resource: "limits.cpu", want: "2"},
		{name: "milli", resource: "limits.cpu", divisor: "1m", want: "1500"},
		{name: "exact", resource: "requests.cpu", divisor: "50m", want: "5"},
		{name: "rounded up by a divisor", resource: "requests.cpu", divisor: "100m", want: "3"},
		{name: "bytes", resource: "limits.memory", want: "104857600"},
		{name: "mebibytes", resource: "limits.memory", divisor: "1Mi", want: "100"},
		{name: "megabytes", resource: "limits.memory", divisor: "1M", want: "105"},
		{name: "zero divisor is one", resource: "requests.memory", divisor: "0", want: "67108864"},
		{name: "storage", resource: "requests.ephemeral-storage", divisor: "1Gi", want: "2"},
		{name: "huge pages", resource: "limits.hugepages-2Mi", divisor: "1Mi", want: "4"},
		{name: "huge pages not asked for", resource: "limits.hugepages-1Gi", want: "0"},
		{name: "request not set", resource: "requests.hugepages-2Mi", want: "0"},
		{name: "named", resource: "requests.cpu", container: "bare", want: "0"},
		{name: "named init container", resource: "limits.cpu", container: "setup", want: "2"},
		{name: "limit not set", resource: "limits.cpu", container: "bare", divisor: "1m", want: "3900"},
		{name: "memory limit not set", resource: "limits.memory", container: "setup", divisor: "1Gi", want: "7"},

		{name: "not set and not known", resource: "limits.ephemeral-storage", err: "limits.ephemeral-storage is not set, and the allocatable resources of this node are not known"},
		{name: "no such container", resource: "limits.cpu", container: "gone", err: `the pod has no container "gone"`},
		{name: "unknown resource", resource: "limits.nvidia.com/gpu", err: `unsupported resource "limits.nvidia.com/gpu"`},
		{name: "unknown kind", resource: "claims.cpu", err: `unsupported resource "claims.cpu"`},
		{name: "empty", resource: "", err: `unsupported resource ""`},
		{name: "no kind", resource: "cpu", err: `unsupported resource "cpu"`},
		{name: "negative divisor", resource: "limits.cpu", divisor: "-1", err: "the divisor is negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ref := &v1.ResourceFieldSelector{Resource: tc.resource, ContainerName: tc.container}
			if tc.divisor != "" {
				ref.Divisor = resource.MustParse(tc.divisor)
			}
			s := resourceSources()
			before := s.pod.DeepCopy()
			got, err := s.resourceFieldRef(ref)
			assert.Equal(t, before, s.pod, "the pod is not written")
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestUnsetLimitIsThePodsThenTheNodes(t *testing.T) {
	s := resourceSources()
	ask := func(container string) string {
		got, err := s.resourceFieldRef(&v1.ResourceFieldSelector{Resource: "limits.cpu", ContainerName: container, Divisor: resource.MustParse("1m")})
		require.NoError(t, err)
		return got
	}
	assert.Equal(t, "3900", ask("bare"))
	s.pod.Spec.Resources = &v1.ResourceRequirements{Limits: amounts("cpu", "700m")}
	assert.Equal(t, "700", ask("bare"))
	assert.Equal(t, "1500", ask("own"))
	s.pod.Spec.Containers[1].Resources.Limits = amounts("cpu", "0")
	assert.Equal(t, "700", ask("bare"), "zero is not set")
}

func FuzzFieldRef(f *testing.F) {
	for _, s := range []string{"metadata.name", "metadata.labels['app']", "metadata.annotations['a/b']", "status.podIPs", "['", "metadata.labels['']['']"} {
		f.Add(s)
	}
	known := []string{"", "web", "ns", "u-1", "front", "hi", "y", "z", "node-1", "robot", "10.0.0.1", "10.0.0.1,fd00::1", "10.1.0.7", "10.1.0.7,fd00::7"}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := fieldSources().fieldRef(&v1.ObjectFieldSelector{FieldPath: path})
		if err != nil {
			require.Empty(t, got)
			return
		}
		require.Contains(t, known, got)
		require.True(t, strings.HasPrefix(path, "metadata.") || strings.HasPrefix(path, "spec.") || strings.HasPrefix(path, "status."))
	})
}
