// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// The calls go over a real socket to the tests' server, whose work is included.

func BenchmarkList(b *testing.B) {
	for _, pods := range []int{10, 100, 500} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			rt := benched(b, pods)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rt.List(b.Context(), runtime.ListOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPodStatus(b *testing.B) {
	rt := benched(b, 100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rt.PodStatus(b.Context(), types.UID("u7")); err != nil {
			b.Fatal(err)
		}
	}
}

func benched(b *testing.B, pods int) Backend {
	s := newServer(b)
	rt := s.dial(b)
	for i := range pods {
		made(b, rt, fmt.Sprintf("u%d", i))
	}
	return rt
}
