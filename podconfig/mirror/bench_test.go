// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
)

// BenchmarkApply measures an update of a pod and the queries of a sync, for any number of pods.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10, 110, 1_000, 10_000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			x := mirror.NewIndex()
			for i := range n {
				x.Put(static(fmt.Sprint("web-", i), types.UID(fmt.Sprint("s", i)), "h"))
				x.Put(mirrorPod(fmt.Sprint("web-", i), types.UID(fmt.Sprint("m", i)), "h"))
			}
			u := podconfig.Update{Op: podconfig.OpReconcile, Pods: []*v1.Pod{mirrorPod("web-1", "m1", "h")}}
			b.ReportAllocs()
			for b.Loop() {
				_, touched := x.Apply(u)
				if s, m := x.Pair(touched[0]); mirror.Decide(s, m) != mirror.StepNone || x.Translate("m1") != "s1" {
					b.Fatal("wrong")
				}
			}
		})
	}
}
