// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/prober"
)

// every returns an httpGet probe with the given period.
func every(period int32) *v1.Probe {
	return &v1.Probe{PeriodSeconds: period, ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}}}
}

// everyExec is every with a command.
func everyExec(period int32) *v1.Probe {
	return &v1.Probe{PeriodSeconds: period, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
}

// podOf is a pod whose UID is its name, with regular containers.
func podOf(name string, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: containers},
	}
}

// manyPods returns n pods, each with one container c with the given probes.
func manyPods(n int, probes func(c *v1.Container)) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		c := v1.Container{Name: "c"}
		probes(&c)
		pods[i] = podOf(fmt.Sprintf("pod-%05d", i), c)
	}
	return pods
}

// now returns an instance that starts now.
func now(id string) prober.Instance {
	return prober.Instance{ID: id, StartedAt: time.Now(), PodIP: "10.0.0.1"}
}

// inBubble runs f in virtual time with a running Prober. f may stop the Prober early.
func inBubble(t *testing.T, o prober.Options, f func(t *testing.T, p *prober.Prober, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, err := prober.New(o)
		require.NoError(t, err)
		stop, stopped := run(t, p), false
		once := func() {
			if !stopped {
				stopped = true
				stop()
			}
		}
		defer once()
		f(t, p, once)
	})
}
