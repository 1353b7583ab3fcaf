// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestSubPaths(t *testing.T) {
	env := []v1.EnvVar{
		{Name: "POD", Value: "web"}, {Name: "EMPTY"}, {Name: "UP", Value: ".."}, {Name: "ROOT", Value: "/hunter2"},
		{Name: "LONG", Value: strings.Repeat("x", 3000)},
	}
	for _, tc := range []struct{ name, path, expr, want, err string }{
		{name: "none"},
		{name: "plain", path: "a/b", want: "a/b"},
		{name: "plain is not expanded", path: "$(POD)", want: "$(POD)"},
		{name: "dots that do not climb", path: "..a/b..", want: "..a/b.."},
		{name: "expanded", expr: "logs/$(POD)", want: "logs/web"},
		{name: "escaped", expr: "$$(POD)", want: "$(POD)"},
		{name: "climbing", path: "a/../../b", err: `volumeMounts[1].subPath: has a ".."`},
		{name: "absolute", path: "/etc", err: "volumeMounts[1].subPath: is not relative"},
		{name: "NUL", path: "a\x00", err: "volumeMounts[1].subPath: has a NUL byte"},
		{name: "NUL at first", path: "\x00a", err: "volumeMounts[1].subPath: has a NUL byte"},
		{name: "not set", expr: "a/$(NOPE)", err: `volumeMounts[1].subPathExpr: variable "NOPE" is not set or empty`},
		{name: "empty", expr: "$(POD)$(EMPTY)", err: `volumeMounts[1].subPathExpr: variable "EMPTY" is not set or empty`},
		{name: "no name", expr: "$()", err: `volumeMounts[1].subPathExpr: variable "" is not set or empty`},
		{name: "climbing by a variable", expr: "a/$(UP)/b", err: `volumeMounts[1].subPathExpr: has a ".."`},
		{name: "absolute by a variable", expr: "$(ROOT)", err: "volumeMounts[1].subPathExpr: is not relative"},
		{name: "too long", expr: "$(LONG)$(LONG)", err: "volumeMounts[1].subPathExpr: is longer than 4096 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podOf(v1.Container{Name: "c", Env: env, VolumeMounts: []v1.VolumeMount{
				{Name: "first", MountPath: "/first", SubPath: "x"},
				{Name: "data", MountPath: "/data", SubPath: tc.path, SubPathExpr: tc.expr},
			}})
			before := pod.DeepCopy()
			var seen []v1.VolumeMount
			g := newGenerator(t, DefaultGeneratorOptions{Volumes: func(_ context.Context, _ *v1.Pod, c *v1.Container) ([]Mount, error) {
				seen = c.VolumeMounts
				return nil, nil
			}})
			spec, _, err := g.Container(t.Context(), pod, Ref{}, ContainerInput{})
			assert.Equal(t, before, pod, "the pod is not written")
			if tc.err != "" {
				require.EqualError(t, err, "spec.containers[0]."+tc.err)
				assert.Nil(t, seen)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []v1.VolumeMount{
				{Name: "first", MountPath: "/first", SubPath: "x"},
				{Name: "data", MountPath: "/data", SubPath: tc.want},
			}, seen)
			assert.Same(t, &pod.Spec.Containers[0], spec.Container)
		})
	}
}
