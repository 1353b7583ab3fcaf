// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestUsers(t *testing.T) {
	pod := testPod("u1", "main")
	mapping := IDMapping{HostUID: 65536, HostGID: 131072, Length: 65536}
	var fails error
	opts := &Options{UserNamespaces: func(*v1.Pod) (IDMapping, error) { return mapping, fails }}
	got, err := opts.users(pod)
	require.NoError(t, err)
	assert.Nil(t, got, "the pod does not ask")
	pod.Spec.HostUsers = pointer(true)
	got, err = opts.users(pod)
	require.NoError(t, err)
	assert.Nil(t, got, "the pod asks for the node's")

	pod.Spec.HostUsers = pointer(false)
	got, err = opts.users(pod)
	require.NoError(t, err)
	want := &api.UserNamespace{
		Mode: api.NamespaceMode_POD,
		Uids: []*api.IDMapping{{HostId: 65536, Length: 65536}}, Gids: []*api.IDMapping{{HostId: 131072, Length: 65536}},
	}
	assert.Equal(t, want, got)
	for _, mapping = range []IDMapping{
		{}, {HostUID: 1, HostGID: 1}, {HostGID: 1, Length: 1}, {HostUID: 1, Length: 1}, {HostUID: math.MaxUint32, HostGID: 1, Length: 1},
	} {
		_, err = opts.users(pod)
		assert.ErrorContains(t, err, "spec.hostUsers", "%+v", mapping)
	}
	mapping, fails = IDMapping{HostUID: 1, HostGID: 1, Length: 1}, errors.New("none left")
	_, err = opts.users(pod)
	assert.ErrorIs(t, err, fails)
}

func TestUsersThatAreRefused(t *testing.T) {
	opts := &Options{UserNamespaces: func(*v1.Pod) (IDMapping, error) { return IDMapping{}, nil }}
	able := Info{Handlers: map[string]Handler{"": {UserNamespaces: true}}}
	for _, tt := range []struct {
		name string
		edit func(p *v1.Pod)
		opts *Options
		info Info
		want string
	}{
		{"not asked for", func(p *v1.Pod) { p.Spec.HostUsers = nil }, &Options{}, Info{}, ""},
		{"can be", func(*v1.Pod) {}, opts, able, ""},
		{"nobody gives IDs", func(*v1.Pod) {}, &Options{}, able, "spec.hostUsers"},
		{"the runtime cannot", func(*v1.Pod) {}, opts, Info{Handlers: map[string]Handler{"": {}}}, "spec.hostUsers"},
		{"the runtime does not say", func(*v1.Pod) {}, opts, Info{}, "spec.hostUsers"},
		{"with the node's processes", func(p *v1.Pod) { p.Spec.HostPID = true }, opts, able, "spec.hostPID"},
		{"with the node's memory", func(p *v1.Pod) { p.Spec.HostIPC = true }, opts, able, "spec.hostIPC"},
		{"on the node's network", func(p *v1.Pod) { p.Spec.HostNetwork = true }, opts, able, "spec.hostNetwork"},
		{"on the node's network, where that can be", func(p *v1.Pod) { p.Spec.HostNetwork = true }, opts,
			Info{Handlers: able.Handlers, UserNamespacesHostNetwork: true}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod("u1", "main")
			pod.Spec.HostUsers = pointer(false)
			tt.edit(pod)
			field, _ := refuseUsers(pod, tt.opts, tt.info)
			assert.Equal(t, tt.want, field)
		})
	}
}

// The sandbox, its containers and their mounts have the same users, even if another agent made the
// sandbox with other users.
func TestUsersArrive(t *testing.T) {
	s := newServer(t)
	var asked []any
	s.asks(func(q any) { asked = append(asked, q) })
	agent := func(first uint32) *client {
		rt := s.dial(t).(*client)
		rt.opts.UserNamespaces = func(*v1.Pod) (IDMapping, error) { return IDMapping{HostUID: first, HostGID: first, Length: 10}, nil }
		rt.info.Handlers = map[string]Handler{"": {UserNamespaces: true}}
		return rt
	}
	pod := testPod("u1", "main")
	pod.Spec.HostUsers = pointer(false)
	first, second := agent(1000), agent(2000)
	sb, err := first.RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.NoError(t, err)
	_, err = second.CreateContainer(t.Context(), sb, containerSpecOf(pod, "main"))
	require.NoError(t, err)
	want := []*api.IDMapping{{HostId: 1000, Length: 10}}
	seen := 0
	for _, q := range asked {
		switch q := q.(type) {
		case *api.RunPodSandboxRequest:
			seen++
			assertMapping(t, want, q.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions().GetUids())
		case *api.CreateContainerRequest:
			seen++
			assertMapping(t, want, q.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions().GetGids())
			assertMapping(t, want, q.GetSandboxConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions().GetUids())
			require.Len(t, q.GetConfig().GetMounts(), 2)
			for _, m := range q.GetConfig().GetMounts() {
				assertMapping(t, want, m.GetUidMappings())
				assertMapping(t, want, m.GetGidMappings())
			}
		}
	}
	assert.Equal(t, 2, seen)
}

func assertMapping(t *testing.T, want, got []*api.IDMapping) {
	t.Helper()
	if assert.Len(t, got, len(want)) {
		assert.Equal(t, want[0].String(), got[0].String())
	}
}

// A container of a sandbox that the kubelet made names the mode NODE as its sandbox does, without
// mappings of its mounts: containerd 2 refuses a container whose user namespace is not that of its
// sandbox.
func TestUsersOfASandboxOfTheKubelet(t *testing.T) {
	s := newServer(t)
	var created *api.CreateContainerRequest
	s.asks(func(q any) {
		switch q := q.(type) {
		case *api.RunPodSandboxRequest: // the kubelet's
			q.Config.Linux.SecurityContext.NamespaceOptions.UsernsOptions = &api.UserNamespace{Mode: api.NamespaceMode_NODE}
		case *api.CreateContainerRequest:
			created = q
		}
	})
	pod := testPod("u1", "main")
	sb, err := s.dial(t).RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.NoError(t, err)
	_, err = s.dial(t).CreateContainer(t.Context(), sb, containerSpecOf(pod, "main"))
	require.NoError(t, err)
	require.NotNil(t, created)
	for _, security := range []*api.NamespaceOption{
		created.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions(), created.GetSandboxConfig().GetLinux().GetSecurityContext().GetNamespaceOptions(),
	} {
		require.NotNil(t, security.GetUsernsOptions())
		assert.Equal(t, api.NamespaceMode_NODE, security.GetUsernsOptions().GetMode())
	}
	require.NotEmpty(t, created.GetConfig().GetMounts())
	for _, m := range created.GetConfig().GetMounts() {
		assert.Empty(t, m.GetUidMappings())
	}
}
