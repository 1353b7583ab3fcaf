// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

func TestFullName(t *testing.T) {
	require.Equal(t, "web-1_ns", podconfig.FullName(pod("web-1", "1")))
	name, namespace, err := podconfig.ParseFullName(podconfig.FullName(pod("web-1", "1")))
	require.NoError(t, err)
	require.Equal(t, []string{"web-1", "ns"}, []string{name, namespace})
	for _, bad := range []string{"", "_", "a", "a_", "_b", "a_b_c", "a__b"} {
		_, _, err := podconfig.ParseFullName(bad)
		require.ErrorIs(t, err, podconfig.ErrFullName, bad)
	}
}

func TestFacts(t *testing.T) {
	priority := func(n int32) podOption { return func(p *v1.Pod) { p.Spec.Priority = &n } }
	source := func(name string) podOption { return annotation(podconfig.AnnotationSource, name) }
	for _, tt := range []struct {
		name                     string
		pod                      *v1.Pod
		static, mirror, critical bool
	}{
		{"no source", pod("a", "1"), false, false, false},
		{"api", pod("a", "1", source("api")), false, false, false},
		{"file", pod("a", "1", source("file")), true, false, true},
		{"any other", pod("a", "1", source("bus")), true, false, true},
		{"mirror", pod("a", "1", source("api"), annotation(podconfig.AnnotationMirror, "")), false, true, true},
		{"high priority", pod("a", "1", priority(1_999_999_999)), false, false, false},
		{"system priority", pod("a", "1", priority(2_000_000_000)), false, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.static, podconfig.IsStatic(tt.pod))
			require.Equal(t, tt.mirror, podconfig.IsMirror(tt.pod))
			require.Equal(t, tt.critical, podconfig.IsCritical(tt.pod))
		})
	}
	name, ok := podconfig.SourceOf(pod("a", "1", source("bus")))
	require.True(t, ok)
	require.Equal(t, "bus", name)
	_, ok = podconfig.SourceOf(pod("a", "1"))
	require.False(t, ok)
}

func TestFirstSeen(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 60, elsewhere)
	got, ok := podconfig.FirstSeen(pod("a", "1", annotation(podconfig.AnnotationFirstSeen, at.Format("2006-01-02T15:04:05.000000000Z07:00"))))
	require.True(t, ok)
	require.True(t, at.Equal(got))
	_, ok = podconfig.FirstSeen(pod("a", "1"))
	require.False(t, ok)
	_, ok = podconfig.FirstSeen(pod("a", "1", annotation(podconfig.AnnotationFirstSeen, "yesterday")))
	require.False(t, ok)
}

func TestWords(t *testing.T) {
	for op, want := range map[podconfig.Op]string{
		opAdd: "ADD", opUpdate: "UPDATE", opDelete: "DELETE", opRemove: "REMOVE", opReconcile: "RECONCILE", 0: "UNKNOWN",
	} {
		require.Equal(t, want, op.String())
	}
	for want, c := range map[string]podconfig.Change{
		"Snapshot": podconfig.Snapshot(), "Upsert": podconfig.Upsert(), "Remove": podconfig.Remove(), "unknown": {},
	} {
		require.Equal(t, want, c.Kind().String())
	}
	c := podconfig.Remove("1", "2")
	require.Equal(t, []types.UID{"1", "2"}, c.UIDs())
	require.Empty(t, c.Pods())
	require.Len(t, podconfig.Upsert(pod("a", "1")).Pods(), 1)
}
