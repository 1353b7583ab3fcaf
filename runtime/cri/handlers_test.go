// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// classes are RuntimeClasses that a test's server knows.
type classes struct {
	handlers map[string]string
	asked    []string
	err      error
}

func (c *classes) find(_ context.Context, class string) (string, error) {
	c.asked = append(c.asked, class)
	handler, ok := c.handlers[class]
	if c.err != nil {
		return "", c.err
	}
	if !ok {
		return "", errors.New("there is none")
	}
	return handler, nil
}

func dialWith(t *testing.T, s *server, o Options) *client {
	o.Root = t.TempDir()
	rt, err := Dial(t.Context(), s.socket, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rt.Close() })
	return rt.(*client)
}

// A RuntimeClass that is not listed is looked up with each sandbox, and for a container only if its
// sandbox is of an earlier program. A pod of a class that does not exist yet is not refused.
func TestAClassIsLookedUp(t *testing.T) {
	s, known := newServer(t), &classes{handlers: map[string]string{}}
	var used []string
	s.asks(func(request any) {
		if q, ok := request.(*api.RunPodSandboxRequest); ok {
			used = append(used, q.GetRuntimeHandler())
		}
	})
	opts := Options{RuntimeHandlers: map[string]string{"listed": "runsc"}, FindHandler: known.find}
	rt := dialWith(t, s, opts)
	pod := testPod("u1", "main")
	pod.Spec.RuntimeClassName = pointer("kata")

	require.NoError(t, rt.CheckPod(pod))
	require.Empty(t, known.asked, "a check sends no request")
	_, err := rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.EqualError(t, err, `look up RuntimeClass "kata": there is none`)

	known.handlers["kata"] = "kata-qemu"
	sb, err := rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.NoError(t, err)
	_, err = rt.CreateContainer(t.Context(), sb, containerSpecOf(pod, "main"))
	require.NoError(t, err)
	known.handlers["kata"] = "kata-clh" // another object of the same name
	_, err = rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.NoError(t, err)
	pod.Spec.RuntimeClassName = pointer("listed")
	_, err = rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.NoError(t, err)
	assert.Equal(t, []string{"kata-qemu", "kata-clh", "runsc"}, used)
	assert.Equal(t, []string{"kata", "kata", "kata"}, known.asked)

	pod.Spec.RuntimeClassName = pointer("kata")
	_, err = dialWith(t, s, opts).CreateContainer(t.Context(), sb, containerSpecOf(pod, "main"))
	require.NoError(t, err)
	assert.Len(t, known.asked, 4)
}

// A pod of a class that was found before starts without an answer about the class, unless the class has
// been deleted or the caller has stopped.
func TestTheLastHandlerOfAClassIsUsed(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, test := range map[string]struct {
		ctx   context.Context
		class string
		err   error
		want  string
	}{
		"no answer":        {t.Context(), "kata", context.DeadlineExceeded, ""},
		"another class":    {t.Context(), "gvisor", context.DeadlineExceeded, `look up RuntimeClass "gvisor": context deadline exceeded`},
		"deleted":          {t.Context(), "kata", apierrors.NewNotFound(schema.GroupResource{Resource: "runtimeclasses"}, "kata"), `look up RuntimeClass "kata": runtimeclasses "kata" not found`},
		"the caller stops": {stopped, "kata", context.Canceled, `look up RuntimeClass "kata": context canceled`},
	} {
		t.Run(name, func(t *testing.T) {
			s, known := newServer(t), &classes{handlers: map[string]string{"kata": "kata-qemu"}}
			rt := dialWith(t, s, Options{FindHandler: known.find})
			pod := testPod("u1", "main")
			pod.Spec.RuntimeClassName = pointer("kata")
			_, err := rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
			require.NoError(t, err)
			known.err, pod.Spec.RuntimeClassName = test.err, &test.class
			opts, err := rt.findHandler(test.ctx, pod)
			if test.want != "" {
				require.EqualError(t, err, test.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "kata-qemu", opts.RuntimeHandlers["kata"])
		})
	}
}

// A class that was deleted does not return with an outage. Its pods keep their handler.
func TestADeletedClassStaysDeleted(t *testing.T) {
	s, known := newServer(t), &classes{handlers: map[string]string{"kata": "kata-qemu"}}
	rt := dialWith(t, s, Options{FindHandler: known.find})
	pod := testPod("u1", "main")
	pod.Spec.RuntimeClassName = pointer("kata")
	_, err := rt.findHandler(t.Context(), pod)
	require.NoError(t, err)
	for _, known.err = range []error{apierrors.NewNotFound(schema.GroupResource{Resource: "runtimeclasses"}, "kata"), context.DeadlineExceeded} {
		_, err = rt.findHandler(t.Context(), pod)
		require.ErrorIs(t, err, known.err)
	}
	opts, err := rt.recallHandler(t.Context(), pod)
	require.NoError(t, err)
	require.Equal(t, "kata-qemu", opts.RuntimeHandlers["kata"])
}

// The abilities of a handler count as soon as the handler is known.
func TestTheHandlerOfAClassDecidesWhatAPodMayAsk(t *testing.T) {
	s, known := newServer(t), &classes{handlers: map[string]string{"old": "runc", "new": "crun", "gone": "removed"}}
	rt := dialWith(t, s, Options{FindHandler: known.find, UserNamespaces: func(*v1.Pod) (IDMapping, error) { return IDMapping{}, nil }})
	rt.info.Handlers = map[string]Handler{"": {}, "runc": {}, "crun": {RecursiveReadOnlyMounts: true}}
	pod := testPod("u1", "main")
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "a", MountPath: "/a", RecursiveReadOnly: pointer(v1.RecursiveReadOnlyEnabled)}}
	for class, want := range map[string]string{"old": "recursiveReadOnly (this runtime has no such mounts)", "new": "", "gone": "the runtime has no handler of that class"} {
		pod.Spec.RuntimeClassName = &class
		require.NoError(t, rt.CheckPod(pod), "not known yet")
		_, err := rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
		if want == "" {
			require.NoError(t, err)
			require.NoError(t, rt.CheckPod(pod))
			continue
		}
		var refused *runtime.UnsupportedError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, rt.CheckPod(pod), want)
	}
	pod.Spec.RuntimeClassName = pointer("later")
	pod.Spec.OS = &v1.PodOS{Name: v1.Windows}
	require.ErrorContains(t, rt.CheckPod(pod), "spec.os.name", "no handler helps")
}
