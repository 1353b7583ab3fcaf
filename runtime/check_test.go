// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func fromFile(name string) podOption {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "b"}, {Name: "F", ValueFrom: &v1.EnvVarSource{
			FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "f", Key: name, Optional: new(true)},
		}}}
	}
}

func withHooks(start, stop *v1.LifecycleHandler) podOption {
	return func(p *v1.Pod) { p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: start, PreStop: stop} }
}

func newChecked(t *testing.T, check func(*v1.Pod) error) *runtime.Manager {
	t.Helper()
	rt, err := fake.New(fake.Options{Check: check})
	require.NoError(t, err)
	gen, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/logs"})
	require.NoError(t, err)
	m, err := runtime.New(runtime.Options{Runtime: rt, Generator: gen})
	require.NoError(t, err)
	return m
}

// A pod with fields that would fail at every start or stop is refused before any work, once, with
// all such fields.
func TestCheckPodAsksEveryPart(t *testing.T) {
	tcp := &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}}
	get := func(p v1.HTTPProtocol) *v1.LifecycleHandler {
		return &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80), Host: "10.0.0.1", Scheme: v1.URISchemeHTTPS, Protocol: new(p)}}
	}
	const c0 = "spec.containers[0]."
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want []string
	}{
		"nothing": {pod: newPod(regular("web"), withHooks(get(v1.HTTPProtocolHTTP1), execHandler("true")))},
		"a variable from a file": {newPod(regular("web"), fromFile("k")), []string{
			c0 + "env[1].valueFrom.fileKeyRef (container web: no variables are read from files)"}},
		"hooks": {newPod(regular("web"), withHooks(tcp, get(v1.HTTPProtocolHTTP2))), []string{
			c0 + "lifecycle.postStart.tcpSocket (container web: Kubernetes has no tcpSocket hooks)",
			c0 + "lifecycle.preStop.httpGet.protocol (container web: hooks speak HTTP/1.1)"}},
		"of a sidecar": {newPod(sidecar("s"), regular("web"), func(p *v1.Pod) {
			p.Spec.InitContainers[0].Lifecycle = &v1.Lifecycle{PreStop: tcp}
		}), []string{"spec.initContainers[0].lifecycle.preStop.tcpSocket (container s: Kubernetes has no tcpSocket hooks)"}},
		"its full name": {newPod(func(p *v1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "sub", new(true) }), []string{
			"spec.setHostnameAsFQDN (the cluster's domain is not known)"}},
		"a full name without a domain": {pod: newPod(func(p *v1.Pod) { p.Spec.SetHostnameAsFQDN = new(true) })},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.pod.DeepCopy()
			err := newChecked(t, nil).CheckPod(tc.pod)
			require.Equal(t, before, tc.pod)
			if tc.want == nil {
				require.NoError(t, err)
				return
			}
			refused, ok := errors.AsType[*runtime.UnsupportedError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, tc.want, refused.Fields)
			require.Equal(t, "fake", refused.Runtime)
		})
	}
}

func TestCheckPodSaysNothingTwice(t *testing.T) {
	own := &runtime.UnsupportedError{Runtime: "fake", Fields: []string{"spec.setHostnameAsFQDN (of no use)", "spec.hostPID (no)"}}
	pod := newPod(regular("web"), fromFile("k"), func(p *v1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "sub", new(true) })
	err := newChecked(t, func(*v1.Pod) error { return own }).CheckPod(pod)
	require.ErrorIs(t, err, runtime.ErrUnsupported)
	refused, _ := errors.AsType[*runtime.UnsupportedError](err)
	require.Equal(t, []string{
		"spec.setHostnameAsFQDN (of no use)", "spec.hostPID (no)",
		"spec.containers[0].env[1].valueFrom.fileKeyRef (container web: no variables are read from files)",
	}, refused.Fields)
	require.Len(t, own.Fields, 2, "the runtime's own is not written")

	trouble := errors.New("trouble")
	err = newChecked(t, func(*v1.Pod) error { return trouble }).CheckPod(pod)
	require.ErrorIs(t, err, trouble)
	require.ErrorContains(t, err, "default/web")
}

func TestCheckPodWithoutARuntimeToBlame(t *testing.T) {
	hooks := runtime.NewHooks(nil, nil) // nothing can be run
	err := hooks.CheckPod(newPod(regular("web"), withHooks(execHandler("true"), nil)))
	require.EqualError(t, err, "cannot honour: spec.containers[0].lifecycle.postStart.exec (container web: the runtime runs no commands in containers)")
	require.ErrorIs(t, err, runtime.ErrUnsupported)
}
