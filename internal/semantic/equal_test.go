// SPDX-License-Identifier: Apache-2.0

package semantic

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stretchr/testify/require"
)

var replaySeed = flag.Uint64("replay-seed", 0, "the seed of the property tests, 0 for a random seed")

// TestPropertyEqualIsSemanticEquality compares random pods with slightly edited copies of
// themselves.
func TestPropertyEqualIsSemanticEquality(t *testing.T) {
	const rounds = 2_000
	seed := *replaySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay with -replay-seed %d", seed)
	f := filler{rand.New(rand.NewPCG(seed, 0))}
	equal := 0
	for range rounds {
		var a v1.Pod
		f.fill(reflect.ValueOf(&a).Elem())
		b := a.DeepCopy()
		for range f.IntN(3) {
			f.edit(reflect.ValueOf(b).Elem())
		}
		want := equality.Semantic.DeepEqual(&a, b)
		require.Equal(t, want, Equal(&a, b), "%#v\n%#v", a, b)
		require.Equal(t, want, Equal(b, &a))
		if want {
			equal++
		}
	}
	require.Greater(t, equal, rounds/10, "the test must know both answers")
	require.Less(t, equal, rounds*9/10)
}

// TestEqualKnowsEveryTypeOfAPod fails for a new type in a Kubernetes release that sameValue would
// handle slowly or not at all.
func TestEqualKnowsEveryTypeOfAPod(t *testing.T) {
	seen := map[reflect.Type]bool{quantityType: true, timeType: true,
		reflect.TypeFor[v1.ResourceList](): true, reflect.TypeFor[map[string]string](): true}
	var visit func(reflect.Type, string)
	visit = func(typ reflect.Type, path string) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			visit(typ.Elem(), path)
		case reflect.Struct:
			for i := range typ.NumField() {
				field := typ.Field(i)
				require.True(t, field.IsExported(), "%s.%s", path, field.Name)
				visit(field.Type, path+"."+field.Name)
			}
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8:
		default:
			require.Fail(t, "unknown kind", "%s: %s", path, typ)
		}
	}
	visit(reflect.TypeFor[v1.Pod](), "Pod")
}

func TestSame(t *testing.T) {
	require.True(t, Equal(&v1.PodSpec{}, &v1.PodSpec{Containers: []v1.Container{}, NodeSelector: map[string]string{}}))
	require.False(t, Equal(&v1.PodSpec{}, &v1.PodSpec{SecurityContext: &v1.PodSecurityContext{}}), "a pointer is not empty")
	require.False(t, Equal(&v1.PodSpec{NodeSelector: map[string]string{"a": ""}}, &v1.PodSpec{NodeSelector: map[string]string{"b": ""}}))
	type unknown struct { // of kinds absent from today's pods
		Share float64
		Flags map[string]bool
	}
	require.True(t, Equal(&unknown{Share: 1, Flags: map[string]bool{"a": true}}, &unknown{Share: 1, Flags: map[string]bool{"a": true}}))
	require.False(t, Equal(&unknown{Share: 1}, &unknown{Share: 2}))
	require.False(t, Equal(&unknown{Flags: map[string]bool{"a": true}}, &unknown{Flags: map[string]bool{"a": false}}))
	amount := func(q string) *v1.PodSpec {
		return &v1.PodSpec{Overhead: v1.ResourceList{"cpu": resource.MustParse(q)}}
	}
	require.True(t, Equal(amount("1000m"), amount("1")))
	require.False(t, Equal(amount("1000m"), amount("1001m")))
	require.False(t, Equal(amount("1"), &v1.PodSpec{Overhead: v1.ResourceList{"memory": resource.MustParse("1")}}))
	at := metav1.Unix(1_700_000_000, 0)
	started := func(at metav1.Time) *v1.PodStatus { return &v1.PodStatus{StartTime: &at} }
	require.True(t, Equal(started(at), started(metav1.Time{Time: at.In(time.FixedZone("z", 3600))})))
	require.False(t, Equal(started(at), started(metav1.Time{Time: at.Add(time.Nanosecond)})))
}

// filler writes random values into API objects, from small ranges so that equal values are common.
type filler struct{ *rand.Rand }

func (f filler) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse([]string{"0", "1", "1000m", "1001m", "1Gi", "1024Mi", "1e30"}[f.IntN(7)])))
		return
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.Time{Time: f.time()}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{"", "a", "b"}[f.IntN(3)])
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.IntN(3)))
	case reflect.Uint8:
		v.SetUint(f.Uint64N(3))
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	default:
		f.fillReference(v)
	}
}

func (f filler) fillReference(v reflect.Value) {
	v.SetZero()
	switch v.Kind() {
	case reflect.Pointer:
		if f.IntN(4) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		// -1 is nil and 0 is empty, which are equal. Two are rare, because pods would grow large.
		if n := []int{-1, -1, -1, 0, 0, 0, 1, 1, 2}[f.IntN(9)]; n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.fill(v.Index(i))
			}
		}
	case reflect.Map:
		if n := f.IntN(3) - 1; n >= 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				f.fill(key)
				f.fill(value)
				v.SetMapIndex(key, value)
			}
		}
	default:
		panic(fmt.Sprint("unknown kind ", v.Type()))
	}
}

func (f filler) time() time.Time {
	at := time.Unix(1_700_000_000, int64(f.IntN(2)))
	if f.IntN(2) == 0 {
		return at.UTC()
	}
	return at.In(time.FixedZone("elsewhere", 5400))
}

// edit rewrites one part somewhere inside v.
func (f filler) edit(v reflect.Value) {
	for {
		switch {
		case v.Type() == quantityType, v.Type() == timeType:
		case v.Kind() == reflect.Struct:
			v = v.Field(f.IntN(v.NumField()))
			continue
		case v.Kind() == reflect.Pointer && !v.IsNil() && f.IntN(8) > 0:
			v = v.Elem()
			continue
		case v.Kind() == reflect.Slice && v.Len() > 0 && f.IntN(8) > 0:
			v = v.Index(f.IntN(v.Len()))
			continue
		}
		f.fill(v)
		return
	}
}

// The usual parts of a status are compared in place: a node compares each status several times.
func TestTimesAndAmountsAreNotCopied(t *testing.T) {
	status := func() *v1.PodStatus {
		at := metav1.Unix(1_700_000_000, 0)
		return &v1.PodStatus{
			StartTime: &at, Conditions: []v1.PodCondition{{Type: v1.PodReady, LastTransitionTime: at}},
			ContainerStatuses: []v1.ContainerStatus{{Name: "a", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}}}},
		}
	}
	a, b := status(), status()
	require.Zero(t, testing.AllocsPerRun(10, func() { require.True(t, Equal(a, b)) }))
}
