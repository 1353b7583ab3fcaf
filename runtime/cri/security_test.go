// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestNamespaces(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		name string
		edit func(*v1.PodSpec)
		want *api.NamespaceOption
	}{
		{"plain", func(*v1.PodSpec) {}, &api.NamespaceOption{Pid: api.NamespaceMode_CONTAINER}},
		{"host", func(s *v1.PodSpec) { s.HostNetwork, s.HostIPC, s.HostPID = true, true, true },
			&api.NamespaceOption{Network: api.NamespaceMode_NODE, Ipc: api.NamespaceMode_NODE, Pid: api.NamespaceMode_NODE}},
		{"shared", func(s *v1.PodSpec) { s.ShareProcessNamespace = &yes }, &api.NamespaceOption{Pid: api.NamespaceMode_POD}},
		{"not shared", func(s *v1.PodSpec) { s.ShareProcessNamespace = &no }, &api.NamespaceOption{Pid: api.NamespaceMode_CONTAINER}},
	} {
		pod := testPod("u", "main")
		tt.edit(&pod.Spec)
		assert.Equal(t, tt.want, namespaceOptions(pod), tt.name)
		assert.Equal(t, tt.want, containerNamespaces(pod, ""), tt.name)
	}
	got := containerNamespaces(testPod("u", "main"), "abc")
	assert.Equal(t, api.NamespaceMode_TARGET, got.Pid)
	assert.Equal(t, "abc", got.TargetId)
	pod := testPod("u", "main")
	pod.Spec.ShareProcessNamespace = &yes
	assert.Equal(t, api.NamespaceMode_POD, containerNamespaces(pod, "abc").Pid, "they see each other anyway")
}

func TestPortMappings(t *testing.T) {
	pod := testPod("u", "main", "other")
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{
		{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 80, HostPort: 8080, Protocol: v1.ProtocolTCP, Name: "again"},
		{ContainerPort: 53, Protocol: v1.ProtocolUDP, HostIP: "127.0.0.1"}, {ContainerPort: 1, Protocol: v1.ProtocolSCTP},
	}
	pod.Spec.Containers[1].Ports = []v1.ContainerPort{{ContainerPort: 81, Protocol: "odd"}}
	pod.Spec.InitContainers = []v1.Container{{Ports: []v1.ContainerPort{{ContainerPort: 99}}}}
	assert.Equal(t, []*api.PortMapping{
		{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 53, Protocol: api.Protocol_UDP, HostIp: "127.0.0.1"},
		{ContainerPort: 1, Protocol: api.Protocol_SCTP}, {ContainerPort: 81},
	}, portMappings(pod))
	pod.Spec.HostNetwork = true
	assert.Nil(t, portMappings(pod))
}

func TestSysctls(t *testing.T) {
	for name, want := range map[string]string{
		"net.ipv4.tcp_syncookies": "net.ipv4.tcp_syncookies", "net/ipv4/tcp_syncookies": "net.ipv4.tcp_syncookies",
		"net/ipv4/conf/eth0.100/x": "net.ipv4.conf.eth0/100.x", "net.ipv4.conf.eth0/100.x": "net.ipv4.conf.eth0/100.x", "plain": "plain",
	} {
		assert.Equal(t, want, sysctlName(name))
	}
	pod := testPod("u")
	assert.Nil(t, sysctls(pod))
	pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "kernel/shm_rmid_forced", Value: "1"}}}
	assert.Equal(t, map[string]string{"kernel.shm_rmid_forced": "1"}, sysctls(pod))
}

func TestSandboxSecurity(t *testing.T) {
	pod := testPod("u", "main")
	got, err := sandboxSecurity(pod)
	require.NoError(t, err)
	assert.Equal(t, api.SecurityProfile_RuntimeDefault, got.Seccomp.ProfileType)
	assert.False(t, got.Privileged)

	yes, user, group, fs := true, int64(1000), int64(2000), int64(3000)
	pod.Spec.InitContainers = []v1.Container{{Name: "init", SecurityContext: &v1.SecurityContext{Privileged: &yes}}}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsGroup: &group, FSGroup: &fs, SupplementalGroups: []int64{4000}}
	got, err = sandboxSecurity(pod)
	require.NoError(t, err)
	assert.True(t, got.Privileged, "one of its containers is")
	assert.Nil(t, got.RunAsGroup, "a group without a user is an error of the CRI")
	assert.Equal(t, []int64{3000, 4000}, got.SupplementalGroups)
	pod.Spec.SecurityContext.RunAsUser = &user
	got, err = sandboxSecurity(pod)
	require.NoError(t, err)
	assert.EqualValues(t, 1000, got.RunAsUser.Value)
	assert.EqualValues(t, 2000, got.RunAsGroup.Value)

	odd := v1.SupplementalGroupsPolicy("Odd")
	pod.Spec.SecurityContext.SupplementalGroupsPolicy = &odd
	_, err = sandboxSecurity(pod)
	assert.ErrorContains(t, err, "spec.securityContext.supplementalGroupsPolicy")
}

func TestContainerOverridesPodFieldByField(t *testing.T) {
	one, two, yes, no := int64(1), int64(2), true, false
	level := &v1.SELinuxOptions{Level: "s0"}
	pod := testPod("u", "main")
	pod.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsUser: &one, RunAsGroup: &one, RunAsNonRoot: &yes, SELinuxOptions: level,
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
	}
	c := &pod.Spec.Containers[0]
	c.SecurityContext = &v1.SecurityContext{
		RunAsUser: &two, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
		Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}},
	}
	got, err := containerSecurity(pod, c, imageUser{}, &Options{})
	require.NoError(t, err)
	assert.EqualValues(t, 2, got.RunAsUser.Value)
	assert.EqualValues(t, 1, got.RunAsGroup.Value)
	assert.Equal(t, "s0", got.SelinuxOptions.Level)
	assert.Equal(t, api.SecurityProfile_RuntimeDefault, got.Seccomp.ProfileType)
	assert.True(t, got.ReadonlyRootfs && got.NoNewPrivs)
	assert.Equal(t, []string{"NET_ADMIN"}, got.Capabilities.AddCapabilities)
	assert.Equal(t, []string{"ALL"}, got.Capabilities.DropCapabilities)
	assert.Contains(t, got.MaskedPaths, "/proc/kcore")
	assert.Contains(t, got.ReadonlyPaths, "/proc/sys")
	assert.EqualValues(t, 2, *c.SecurityContext.RunAsUser)
	assert.Nil(t, c.SecurityContext.RunAsGroup, "the pod is not written")

	unmasked := v1.UnmaskedProcMount
	c.SecurityContext.ProcMount = &unmasked
	got, err = containerSecurity(pod, c, imageUser{}, &Options{})
	require.NoError(t, err)
	assert.Empty(t, got.MaskedPaths)
}

func TestSeccomp(t *testing.T) {
	yes, file, bad := true, "a/b.json", "../b.json"
	local := func(f *string) *v1.SeccompProfile {
		return &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: f}
	}
	for _, tt := range []struct {
		name string
		sc   v1.SecurityContext
		def  bool
		want *api.SecurityProfile
	}{
		{"nobody asks", v1.SecurityContext{}, false, &api.SecurityProfile{ProfileType: api.SecurityProfile_Unconfined}},
		{"the node's default", v1.SecurityContext{}, true, &api.SecurityProfile{}},
		{"privileged", v1.SecurityContext{Privileged: &yes}, true, &api.SecurityProfile{ProfileType: api.SecurityProfile_Unconfined}},
		{"unconfined", v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}}, true, &api.SecurityProfile{ProfileType: api.SecurityProfile_Unconfined}},
		{"localhost", v1.SecurityContext{SeccompProfile: local(&file)}, false, &api.SecurityProfile{ProfileType: api.SecurityProfile_Localhost, LocalhostRef: "/root/seccomp/a/b.json"}},
		{"out of the directory", v1.SecurityContext{SeccompProfile: local(&bad)}, false, nil},
		{"localhost without a file", v1.SecurityContext{SeccompProfile: local(nil)}, false, nil},
		{"not known", v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: "Odd"}}, false, nil},
	} {
		got, err := seccompProfile(&tt.sc, &Options{SeccompDefault: tt.def, Root: "/root"})
		assert.Equal(t, tt.want, got, tt.name)
		assert.Equal(t, tt.want == nil, err != nil, tt.name)
	}
}

func TestAppArmor(t *testing.T) {
	name, empty := "profile", ""
	localhost := &api.SecurityProfile{ProfileType: api.SecurityProfile_Localhost, LocalhostRef: "profile"}
	for _, tt := range []struct {
		name, annotation string
		field            *v1.AppArmorProfile
		want             *api.SecurityProfile
		bad              bool
	}{
		{name: "nobody asks"},
		{name: "field", field: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}, want: localhost},
		{name: "annotation", annotation: "localhost/profile", want: localhost},
		{name: "default", annotation: "runtime/default", want: &api.SecurityProfile{}},
		{name: "unconfined", annotation: "unconfined", want: &api.SecurityProfile{ProfileType: api.SecurityProfile_Unconfined}},
		{name: "field wins", annotation: "unconfined", field: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}, want: &api.SecurityProfile{}},
		{name: "no name", field: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &empty}, bad: true},
		{name: "odd", annotation: "odd", bad: true},
		{name: "odd field", field: &v1.AppArmorProfile{Type: "Odd"}, bad: true},
	} {
		pod := testPod("u", "main")
		pod.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/main": tt.annotation}
		got, err := appArmorProfile(pod, "main", tt.field)
		assert.Equal(t, tt.want, got, tt.name)
		assert.Equal(t, tt.bad, err != nil, tt.name)
	}
}

func TestUser(t *testing.T) {
	zero, ten, yes := int64(0), int64(10), true
	for _, tt := range []struct {
		name  string
		sc    v1.SecurityContext
		image imageUser
		uid   int64 // -1: by name
		bad   bool
	}{
		{"nobody says", v1.SecurityContext{}, imageUser{}, 0, false},
		{"the image", v1.SecurityContext{}, imageUser{uid: &ten}, 10, false},
		{"the image, by name", v1.SecurityContext{}, imageUser{name: "web"}, -1, false},
		{"the pod", v1.SecurityContext{RunAsUser: &ten}, imageUser{name: "web"}, 10, false},
		{"not root, and says root", v1.SecurityContext{RunAsNonRoot: &yes, RunAsUser: &zero}, imageUser{uid: &ten}, 0, true},
		{"not root, and says somebody", v1.SecurityContext{RunAsNonRoot: &yes, RunAsUser: &ten}, imageUser{}, 10, false},
		{"not root, and the image is", v1.SecurityContext{RunAsNonRoot: &yes}, imageUser{uid: &zero}, 0, true},
		{"not root, and the image does not say", v1.SecurityContext{RunAsNonRoot: &yes}, imageUser{}, 0, true},
		{"not root, and the image says a name", v1.SecurityContext{RunAsNonRoot: &yes}, imageUser{name: "web"}, 0, true},
		{"not root, and the image is not", v1.SecurityContext{RunAsNonRoot: &yes}, imageUser{uid: &ten}, 10, false},
	} {
		out := &api.LinuxContainerSecurityContext{}
		err := setUser(out, &tt.sc, tt.image)
		switch {
		case tt.bad:
			assert.ErrorContains(t, err, "securityContext.runAsNonRoot", tt.name)
		case tt.uid < 0:
			assert.NoError(t, err, tt.name)
			assert.Equal(t, "web", out.RunAsUsername, tt.name)
			assert.Nil(t, out.RunAsUser, tt.name)
		default:
			assert.NoError(t, err, tt.name)
			assert.Equal(t, tt.uid, out.RunAsUser.GetValue(), tt.name)
			assert.Empty(t, out.RunAsUsername, tt.name)
		}
	}
	assert.ErrorContains(t, checkNonRoot(nil, imageUser{name: "web"}), `user "web" is no number`)
	assert.Equal(t, imageUser{uid: &ten}, userOfImage(&api.Image{Uid: &api.Int64Value{Value: 10}}))
	assert.Equal(t, imageUser{name: "web"}, userOfImage(&api.Image{Username: "web"}))
}
