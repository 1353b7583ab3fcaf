// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/internal/expansion"
)

// doubling returns a short list of variables. The last variable has 2^n bytes.
func doubling(n int) []v1.EnvVar {
	env := []v1.EnvVar{{Name: "V0", Value: "x"}}
	for i := range n {
		env = append(env, v1.EnvVar{Name: fmt.Sprintf("V%d", i+1), Value: fmt.Sprintf("$(V%d)$(V%d)", i, i)})
	}
	return env
}

func TestShortManifestCannotAskForEndlessMemory(t *testing.T) {
	got, err := buildEnv(t, nil, v1.Container{Env: doubling(10)})
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(got, "V10="+strings.Repeat("x", 1<<10)))

	_, err = buildEnv(t, nil, v1.Container{Env: doubling(62)})
	require.EqualError(t, err, "env[22].value: environment, command and args are larger than 8 MiB")

	c := v1.Container{Name: "c", Env: doubling(20), Command: []string{"sh"}}
	for range 100 {
		c.Args = append(c.Args, "$(V20)$(V20)")
	}
	g, err := NewDefaultGenerator(DefaultGeneratorOptions{LogRoot: "/logs"})
	require.NoError(t, err)
	_, _, err = g.Container(t.Context(), podOf(c), Ref{}, ContainerInput{})
	require.EqualError(t, err, "spec.containers[0].args[2]: environment, command and args are larger than 8 MiB")

	c.Command, c.Args = c.Args, nil
	_, _, err = g.Container(t.Context(), podOf(c), Ref{}, ContainerInput{})
	require.EqualError(t, err, "spec.containers[0].command[2]: environment, command and args are larger than 8 MiB")
}

// Replacing a value frees the size of the old value.
func TestEnvironmentSizeIsThatOfWhatIsLeft(t *testing.T) {
	var env environment
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		require.NoError(t, env.set(fmt.Sprintf("V%d", r.IntN(5)), strings.Repeat("x", r.IntN(9))))
		want := 0
		for _, v := range env.vars {
			want += len(v.Name) + 1 + len(v.Value) + 1
		}
		require.Equal(t, want, env.size)
	}
	half := strings.Repeat("x", maxProcessStrings/2)
	for range 10 {
		require.NoError(t, env.set("BIG", half))
	}
	require.ErrorIs(t, env.set("BIG2", half), errTooLarge)
	require.NoError(t, env.set("SMALL", "still fits"))
}

// A simple second implementation: values in a map, order in a list.
func environmentSimply(objects *objectMap, c *v1.Container) (string, bool) {
	values := map[string]string{}
	var order []string
	set := func(name, value string) {
		if _, ok := values[name]; !ok {
			order = append(order, name)
		}
		values[name] = value
	}
	for _, f := range c.EnvFrom {
		data, ok := objects.configMaps[f.ConfigMapRef.Name]
		if !ok && !*f.ConfigMapRef.Optional {
			return "", false
		}
		for k := 'A'; k <= 'Z'; k++ {
			if v, ok := data[string(k)]; ok {
				set(f.Prefix+string(k), v)
			}
		}
	}
	for _, e := range c.Env {
		if e.Value == "" && e.ValueFrom != nil {
			ref := e.ValueFrom.SecretKeyRef
			v, ok := objects.secrets[ref.Name][ref.Key]
			if !ok && !*ref.Optional {
				return "", false
			}
			if ok {
				set(e.Name, v)
			}
			continue
		}
		value, _ := expansion.Expand(e.Value, math.MaxInt, func(name string) (string, bool) {
			value, ok := values[name]
			return value, ok
		})
		set(e.Name, value)
	}
	var out []string
	for _, name := range order {
		out = append(out, name+"="+values[name])
	}
	return strings.Join(out, " "), true
}

func TestEnvironmentAgreesWithSimpleModel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	objects := &objectMap{
		namespace:  "ns",
		configMaps: map[string]map[string]string{"one": {"A": "1a", "C": "$(A)"}, "two": {"A": "2a", "B": "2b"}},
		secrets:    map[string]map[string]string{"one": {"x": "$$", "y": ""}},
	}
	failed := 0
	for range casetest.Rounds(20_000) {
		var c v1.Container
		for range r.IntN(4) {
			c.EnvFrom = append(c.EnvFrom, configMapEnv(pick("one", "two", "two", "no"), pick("", "", "B"), r.IntN(4) > 0))
		}
		for range r.IntN(6) {
			name := pick("A", "B", "C", "BA", "D")
			switch r.IntN(4) {
			case 0:
				c.Env = append(c.Env, secretKey(name, pick("one", "one", "no"), pick("x", "y", "z"), r.IntN(4) > 0))
			case 1:
				c.Env = append(c.Env, v1.EnvVar{Name: name})
			default:
				value := ""
				for range r.IntN(4) {
					value += pick("$(A)", "$(B)", "$(BA)", "$(D)", "$$", "$(", ")", "x")
				}
				c.Env = append(c.Env, v1.EnvVar{Name: name, Value: value})
			}
		}
		want, ok := environmentSimply(objects, &c)
		got, err := buildEnv(t, objects, c)
		require.Equal(t, ok, err == nil, "%v", err)
		require.Equal(t, want, got)
		if !ok {
			failed++
		}
	}
	require.Greater(t, failed, casetest.Rounds(1_000), "both outcomes are to be seen")
	require.Less(t, failed, casetest.Rounds(15_000))
}
