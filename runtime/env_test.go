// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// objectMap is Objects in memory, of one namespace.
type objectMap struct {
	namespace  string
	configMaps map[string]map[string]string
	secrets    map[string]map[string]string
	err        error // of every call, if set
	calls      []string
}

func (o *objectMap) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	o.calls = append(o.calls, "ConfigMap "+namespace+"/"+name)
	data, ok := o.configMaps[name]
	switch {
	case o.err != nil:
		return nil, o.err
	case !ok || namespace != o.namespace:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &v1.ConfigMap{Data: data}, nil
}

func (o *objectMap) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	o.calls = append(o.calls, "Secret "+namespace+"/"+name)
	data, ok := o.secrets[name]
	switch {
	case o.err != nil:
		return nil, o.err
	case !ok || namespace != o.namespace:
		return nil, fmt.Errorf("no such file: %w", ErrNotFound)
	}
	secret := &v1.Secret{Data: map[string][]byte{}}
	for k, v := range data {
		secret.Data[k] = []byte(v)
	}
	return secret, nil
}

var someObjects = objectMap{
	namespace:  "ns",
	configMaps: map[string]map[string]string{"cfg": {"b": "cfg-b", "a": "cfg-a", "ref": "$(b)"}},
	secrets:    map[string]map[string]string{"sec": {"a": "sec-a", "token": "hunter2"}},
}

func configMapEnv(name, prefix string, optional ...bool) v1.EnvFromSource {
	ref := &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}
	if len(optional) > 0 {
		ref.Optional = &optional[0]
	}
	return v1.EnvFromSource{Prefix: prefix, ConfigMapRef: ref}
}

func secretEnv(name, prefix string, optional ...bool) v1.EnvFromSource {
	ref := &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}
	if len(optional) > 0 {
		ref.Optional = &optional[0]
	}
	return v1.EnvFromSource{Prefix: prefix, SecretRef: ref}
}

func configMapKey(env, name, key string, optional ...bool) v1.EnvVar {
	ref := &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key}
	if len(optional) > 0 {
		ref.Optional = &optional[0]
	}
	return v1.EnvVar{Name: env, ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: ref}}
}

func secretKey(env, name, key string, optional ...bool) v1.EnvVar {
	ref := &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key}
	if len(optional) > 0 {
		ref.Optional = &optional[0]
	}
	return v1.EnvVar{Name: env, ValueFrom: &v1.EnvVarSource{SecretKeyRef: ref}}
}

// buildEnv resolves an environment in namespace "ns" and prints it.
func buildEnv(t *testing.T, objects Objects, c v1.Container) (string, error) {
	t.Helper()
	pod := &v1.Pod{}
	pod.Namespace, pod.Name = "ns", "web"
	s := envSources{pod: pod, container: &c, objects: newObjectReader(objects, pod.Namespace)}
	env, err := s.build(t.Context())
	if err != nil {
		assert.Nil(t, env)
		return "", err
	}
	var out []string
	for _, v := range env.vars {
		out = append(out, v.Name+"="+v.Value)
	}
	return strings.Join(out, " "), nil
}

func TestEnvironment(t *testing.T) {
	for _, tc := range []struct {
		name string
		from []v1.EnvFromSource
		env  []v1.EnvVar
		want string
	}{
		{name: "nothing", want: ""},
		{name: "declaration order", env: []v1.EnvVar{{Name: "Z", Value: "1"}, {Name: "A", Value: "2"}, {Name: "M", Value: "3"}}, want: "Z=1 A=2 M=3"},
		{name: "later replaces in place", env: []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, {Name: "A", Value: "3"}}, want: "A=3 B=2"},
		{name: "sees what is built so far", env: []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)2"}, {Name: "C", Value: "$(B)3"}}, want: "A=1 B=12 C=123"},
		{name: "forward reference stays", env: []v1.EnvVar{{Name: "A", Value: "$(B)"}, {Name: "B", Value: "1"}}, want: "A=$(B) B=1"},
		{name: "its own earlier value", env: []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "$(A)2"}}, want: "A=12"},
		{name: "escape", env: []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$$(A)"}, {Name: "C", Value: "$(B)"}}, want: "A=1 B=$(A) C=$(A)"},
		{name: "empty literal is empty", env: []v1.EnvVar{{Name: "A"}, {Name: "B", Value: "[$(A)]"}}, want: "A= B=[]"},
		{name: "literal beside a source wins", env: []v1.EnvVar{{Name: "A", Value: "lit", ValueFrom: configMapKey("", "cfg", "a").ValueFrom}}, want: "A=lit"},
		{name: "empty literal replaces", from: []v1.EnvFromSource{configMapEnv("cfg", "")}, env: []v1.EnvVar{{Name: "a"}}, want: "a= b=cfg-b ref=$(b)"},

		{name: "ConfigMap, keys sorted, not expanded", from: []v1.EnvFromSource{configMapEnv("cfg", "")}, want: "a=cfg-a b=cfg-b ref=$(b)"},
		{name: "prefix", from: []v1.EnvFromSource{secretEnv("sec", "P_")}, want: "P_a=sec-a P_token=hunter2"},
		{name: "later source replaces in place", from: []v1.EnvFromSource{configMapEnv("cfg", ""), secretEnv("sec", "")}, want: "a=sec-a b=cfg-b ref=$(b) token=hunter2"},
		{name: "env after envFrom", from: []v1.EnvFromSource{secretEnv("sec", "")}, env: []v1.EnvVar{{Name: "X", Value: "$(a)"}, {Name: "a", Value: "mine"}}, want: "a=mine token=hunter2 X=sec-a"},
		{name: "optional source missing", from: []v1.EnvFromSource{configMapEnv("no", "", true), secretEnv("no", "", true)}, want: ""},

		{name: "keys", env: []v1.EnvVar{configMapKey("A", "cfg", "a"), secretKey("B", "sec", "token")}, want: "A=cfg-a B=hunter2"},
		{name: "what a key holds is not expanded", env: []v1.EnvVar{{Name: "b", Value: "1"}, configMapKey("A", "cfg", "ref")}, want: "b=1 A=$(b)"},
		{name: "optional object missing", env: []v1.EnvVar{configMapKey("A", "no", "a", true), secretKey("B", "no", "a", true)}, want: ""},
		{name: "optional key missing", env: []v1.EnvVar{configMapKey("A", "cfg", "no", true), secretKey("B", "sec", "no", true)}, want: ""},
		{name: "optional missing keeps what was there", env: []v1.EnvVar{{Name: "A", Value: "1"}, secretKey("A", "no", "a", true), {Name: "B", Value: "$(A)"}}, want: "A=1 B=1"},
		{name: "optional and there", env: []v1.EnvVar{configMapKey("A", "cfg", "a", true)}, want: "A=cfg-a"},
		{name: "names beyond identifiers", env: []v1.EnvVar{{Name: "my.odd-name 1", Value: "x"}}, want: "my.odd-name 1=x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects := someObjects
			got, err := buildEnv(t, &objects, v1.Container{EnvFrom: tc.from, Env: tc.env})
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestEnvironmentErrorsNameTheField(t *testing.T) {
	no := false
	for _, tc := range []struct {
		name string
		from []v1.EnvFromSource
		env  []v1.EnvVar
		want string
	}{
		{"ConfigMap missing", []v1.EnvFromSource{configMapEnv("cfg", ""), configMapEnv("no", "", no)}, nil, `envFrom[1].configMapRef: ConfigMap "no": configmaps "no" not found`},
		{"Secret missing", []v1.EnvFromSource{secretEnv("no", "")}, nil, `envFrom[0].secretRef: Secret "no": no such file: not found`},
		{"neither", []v1.EnvFromSource{{Prefix: "x"}}, nil, "envFrom[0]: needs configMapRef or secretRef"},
		{"bad prefix", []v1.EnvFromSource{secretEnv("sec", "x=")}, nil, `envFrom[0].secretRef: "x=a" cannot be the name of an environment variable`},
		{"ConfigMap of a key missing", nil, []v1.EnvVar{configMapKey("A", "no", "a", no)}, `env[0].valueFrom.configMapKeyRef: ConfigMap "no": configmaps "no" not found`},
		{"Secret of a key missing", nil, []v1.EnvVar{{Name: "A"}, secretKey("A", "no", "a")}, `env[1].valueFrom.secretKeyRef: Secret "no": no such file: not found`},
		{"key missing", nil, []v1.EnvVar{secretKey("A", "sec", "no")}, `env[0].valueFrom.secretKeyRef: key "no": not found`},
		{"env file", nil, []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{}}}}, "env[0].valueFrom.fileKeyRef: unsupported by this runtime"},
		{"empty source", nil, []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{}}}, "env[0].valueFrom: names no source"},
		{"field", nil, []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.phase"}}}}, `env[0].valueFrom.fieldRef: unsupported fieldPath "status.phase"`},
		{"resource", nil, []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.gpu"}}}}, `env[0].valueFrom.resourceFieldRef: unsupported resource "limits.gpu"`},
		{"no name", nil, []v1.EnvVar{{Value: "hunter2"}}, `env[0]: "" cannot be the name of an environment variable`},
		{"name with =", nil, []v1.EnvVar{{Name: "A=B", Value: "hunter2"}}, `env[0]: "A=B" cannot be the name of an environment variable`},
		{"value with NUL", nil, []v1.EnvVar{{Name: "A", Value: "hunter2\x00"}}, "env[0]: the value of A has a NUL byte"},
		{"value that begins with NUL", nil, []v1.EnvVar{{Name: "A", Value: "\x00"}}, "env[0]: the value of A has a NUL byte"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects := someObjects
			_, err := buildEnv(t, &objects, v1.Container{EnvFrom: tc.from, Env: tc.env})
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestEnvironmentWithoutObjects(t *testing.T) {
	_, err := buildEnv(t, nil, v1.Container{Env: []v1.EnvVar{{Name: "A"}, secretKey("B", "sec", "a")}})
	require.EqualError(t, err, `env[1].valueFrom.secretKeyRef: Secret "sec": not found: this node has no source of ConfigMaps and Secrets`)
	_, err = buildEnv(t, nil, v1.Container{EnvFrom: []v1.EnvFromSource{configMapEnv("cfg", "")}})
	require.EqualError(t, err, `envFrom[0].configMapRef: ConfigMap "cfg": not found: this node has no source of ConfigMaps and Secrets`)
	got, err := buildEnv(t, nil, v1.Container{
		EnvFrom: []v1.EnvFromSource{configMapEnv("cfg", "", true), secretEnv("sec", "", true)},
		Env:     []v1.EnvVar{secretKey("B", "sec", "a", true), {Name: "C", Value: "1"}},
	})
	require.NoError(t, err)
	assert.Equal(t, "C=1", got)
}

// Optional means "may be missing", not "may be unreachable": a container must
// not start without a variable because an API server was slow.
func TestUnreachableObjectIsAnErrorEvenIfOptional(t *testing.T) {
	down := errors.New("connection refused")
	for _, c := range []v1.Container{
		{EnvFrom: []v1.EnvFromSource{configMapEnv("cfg", "", true)}},
		{EnvFrom: []v1.EnvFromSource{secretEnv("sec", "", true)}},
		{Env: []v1.EnvVar{configMapKey("A", "cfg", "a", true)}},
		{Env: []v1.EnvVar{secretKey("A", "sec", "a", true)}},
	} {
		objects := someObjects
		objects.err = down
		_, err := buildEnv(t, &objects, c)
		require.ErrorIs(t, err, down)
	}
}

// nothingThere breaks the contract: nil without an error.
type nothingThere struct{}

func (nothingThere) ConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	return nil, nil
}
func (nothingThere) Secret(context.Context, string, string) (*v1.Secret, error) { return nil, nil }

func TestNilObjectIsMissing(t *testing.T) {
	_, err := buildEnv(t, nothingThere{}, v1.Container{Env: []v1.EnvVar{secretKey("A", "sec", "a")}})
	require.ErrorIs(t, err, ErrNotFound)
	_, err = buildEnv(t, nothingThere{}, v1.Container{Env: []v1.EnvVar{configMapKey("A", "cfg", "a")}})
	require.ErrorIs(t, err, ErrNotFound)
}

func TestEachObjectIsReadOnce(t *testing.T) {
	objects := someObjects
	_, err := buildEnv(t, &objects, v1.Container{
		EnvFrom: []v1.EnvFromSource{configMapEnv("cfg", ""), secretEnv("sec", ""), configMapEnv("cfg", "X_")},
		Env:     []v1.EnvVar{configMapKey("A", "cfg", "a"), secretKey("B", "sec", "a"), secretKey("C", "sec", "token")},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"ConfigMap ns/cfg", "Secret ns/sec"}, objects.calls)
}

// The kubelet builds the environment in a map and hands it out in the map's
// random order, so two instances of one container differ.
func TestUpstreamRandomEnvironmentOrderIsDeclarationOrder(t *testing.T) {
	c := v1.Container{EnvFrom: []v1.EnvFromSource{configMapEnv("cfg", ""), secretEnv("sec", "")}}
	want := "a=sec-a b=cfg-b ref=$(b) token=hunter2"
	for i := range 30 {
		name := fmt.Sprintf("V%02d", 29-i)
		c.Env = append(c.Env, v1.EnvVar{Name: name, Value: "x"})
		want += " " + name + "=x"
	}
	for range 20 {
		objects := someObjects
		got, err := buildEnv(t, &objects, c)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
