// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/payload"
)

func testPod() *v1.Pod {
	list := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "ns", UID: "uid",
			Labels:      map[string]string{"b": "2", "a": "line\n\"quoted\""},
			Annotations: map[string]string{"example.com/Key": "v"},
		},
		Spec: v1.PodSpec{
			NodeName: "node", ServiceAccountName: "sa",
			Containers: []v1.Container{
				{Name: "set", Resources: v1.ResourceRequirements{Requests: list("250m", "64Mi"), Limits: list("1500m", "100M")}},
				{Name: "unset"},
			},
			InitContainers: []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Limits: list("1", "1Gi")}}},
		},
		Status: v1.PodStatus{PodIP: "10.0.0.1", HostIP: "192.0.2.1"},
	}
}

func fieldItem(path string) v1.DownwardAPIVolumeFile {
	return v1.DownwardAPIVolumeFile{Path: "f", FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}
}

func resourceItem(container, name, divisor string) v1.DownwardAPIVolumeFile {
	r := &v1.ResourceFieldSelector{ContainerName: container, Resource: name}
	if divisor != "" {
		r.Divisor = resource.MustParse(divisor)
	}
	return v1.DownwardAPIVolumeFile{Path: "f", ResourceFieldRef: r}
}

func TestFiles(t *testing.T) {
	both := fieldItem("metadata.name")
	both.ResourceFieldRef = resourceItem("set", "limits.cpu", "").ResourceFieldRef
	allocatable := v1.ResourceList{
		v1.ResourceMemory: resource.MustParse("8Gi"), "hugepages-1Gi": resource.MustParse("2Gi"), v1.ResourceEphemeralStorage: resource.MustParse("0"),
	}
	for _, tc := range []struct {
		name string
		item v1.DownwardAPIVolumeFile
		want string
		err  string
	}{
		{"name", fieldItem("metadata.name"), "p", ""},
		{"namespace", fieldItem("metadata.namespace"), "ns", ""},
		{"uid", fieldItem("metadata.uid"), "uid", ""},
		{"labels", fieldItem("metadata.labels"), "a=\"line\\n\\\"quoted\\\"\"\nb=\"2\"", ""},
		{"annotations", fieldItem("metadata.annotations"), `example.com/Key="v"`, ""},
		{"label", fieldItem("metadata.labels['b']"), "2", ""},
		{"no such label", fieldItem("metadata.labels['zz']"), "", ""},
		{"annotation", fieldItem("metadata.annotations['example.com/Key']"), "v", ""},
		{"node", fieldItem("spec.nodeName"), "node", ""},
		{"account", fieldItem("spec.serviceAccountName"), "sa", ""},
		{"ip", fieldItem("status.podIP"), "10.0.0.1", ""},
		{"host ip", fieldItem("status.hostIP"), "192.0.2.1", ""},
		{"request", resourceItem("set", "requests.cpu", "1m"), "250", ""},
		{"rounded up", resourceItem("set", "limits.cpu", ""), "2", ""},
		{"mebibytes", resourceItem("set", "limits.memory", "1Mi"), "96", ""},
		{"bytes", resourceItem("set", "limits.memory", "1"), "100000000", ""},
		{"unset request", resourceItem("unset", "requests.memory", ""), "0", ""},
		{"unset limit", resourceItem("unset", "limits.memory", "1Gi"), "8", ""},
		{"init container", resourceItem("init", "limits.memory", "1Mi"), "1024", ""},
		{"huge pages", resourceItem("set", "limits.hugepages-2Mi", ""), "0", ""},
		{"unknown field", fieldItem("spec.secrets"), "", `path "f": unsupported fieldPath "spec.secrets"`},
		{"bad key", fieldItem("metadata.labels['a b']"), "", "invalid key"},
		{"bad map", fieldItem("spec.nodeSelector['a']"), "", "unsupported fieldPath"},
		{"huge pages of the node are not the container's", resourceItem("set", "limits.hugepages-1Gi", ""), "0", ""},
		{"a node without ephemeral storage", resourceItem("set", "limits.ephemeral-storage", ""), "0", ""},
		{"no container", resourceItem("zz", "limits.cpu", ""), "", `no container "zz"`},
		{"no resource", resourceItem("set", "limits.gpu", ""), "", "unsupported resource"},
		{"no kind", resourceItem("set", "cpu", ""), "", "unsupported resource"},
		{"unknown to the node", resourceItem("unset", "limits.cpu", ""), "", "the allocatable resources of this node are not known"},
		{"negative divisor", resourceItem("set", "limits.cpu", "-1"), "", "divisor is negative"},
		{"none", v1.DownwardAPIVolumeFile{Path: "f"}, "", "neither"},
		{"both", both, "", "both"},
		{"climbs", v1.DownwardAPIVolumeFile{Path: "../f", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}, "", `has a ".."`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := payload.Payload{}
			make := func(data []byte, _ *int32, _ *int64) payload.File {
				return payload.File{Data: data, Mode: fs.FileMode(0o644)}
			}
			err := Files(p, testPod(), []v1.DownwardAPIVolumeFile{tc.item}, allocatable, make)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.ErrorIs(t, err, volumemanager.ErrTerminal)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, string(p["f"].Data))
		})
	}
}
