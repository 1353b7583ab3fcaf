// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/prober"
)

// A container that is slow to start, then ready, and found dead in the end.
func Example() {
	var attempts atomic.Int32
	handler := prober.HandlerFunc(func(_ context.Context, t prober.Target) (prober.Outcome, error) {
		if attempts.Add(1) == 1 || t.Type == prober.Liveness {
			return prober.Outcome{Verdict: prober.VerdictFailure, Output: "no answer"}, nil
		}
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	})
	dead := make(chan struct{})
	sink := prober.SinkFunc(func(u prober.Update) {
		fmt.Printf("%s of %s is now %s\n", u.Type, u.Container, u.Result)
		if u.Type == prober.Liveness && u.Result == prober.Failure {
			fmt.Printf("kill %s within %d s\n", u.ID, *u.TerminationGracePeriodSeconds)
			close(dead)
		}
	})
	p, err := prober.New(prober.Options{
		Handler: handler, Sink: sink,
		// Milliseconds, so that the example is fast.
		Tune: func(_ *v1.Pod, _ *v1.Container, t prober.Type, spec prober.Timing) prober.Timing {
			spec.Period = 10 * time.Millisecond
			if t == prober.Liveness {
				spec.InitialDelay = 200 * time.Millisecond
			}
			return spec
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()

	grace := int64(5)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "1234", Namespace: "default", Name: "web"},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "c", StartupProbe: &v1.Probe{}, ReadinessProbe: &v1.Probe{},
			LivenessProbe: &v1.Probe{FailureThreshold: 2, TerminationGracePeriodSeconds: &grace},
		}}},
	}
	p.Start(pod, "c", prober.Instance{ID: "containerd://c1", StartedAt: time.Now(), PodIP: "10.0.0.1"})
	<-dead
	status := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
		Name: "c", ContainerID: "containerd://c1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}}
	p.UpdatePodStatus(pod, &status)
	fmt.Println("started:", *status.ContainerStatuses[0].Started, "ready:", status.ContainerStatuses[0].Ready)
	p.RemovePod(pod.UID)

	cancel()
	fmt.Println("Run:", <-ended)
	// Output:
	// Startup of c is now Success
	// Readiness of c is now Success
	// Liveness of c is now Failure
	// kill containerd://c1 within 5 s
	// started: true ready: true
	// Run: <nil>
}
