// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
	"github.com/keelson-dev/keelson/runtime"
)

// probes are the glue between the prober, which knows containers by the text of
// their IDs, and the runtime, which acts on what it finds out.
type probes struct {
	*prober.Prober
	began time.Time // what runs since before is another agent's
}

func (a *Agent) newProbes() (*probes, error) {
	handler := a.opts.ProbeHandler
	if handler == nil {
		var err error
		if handler, err = handlers.New(handlers.Options{Runner: a.runner()}); err != nil {
			return nil, err
		}
	}
	p, err := prober.New(prober.Options{
		Handler: handler,
		Jitter:  func(period time.Duration) time.Duration { return time.Duration(a.opts.Random() * float64(period)) },
		Events:  a.opts.Events,
		Logger:  a.log,

		OnAttempt: a.opts.Observer.Probed,
		Sink: prober.SinkFunc(func(u prober.Update) {
			// Traffic waits for readiness; the rest comes with the pod's next sync. A
			// result of a dead instance finds nothing to change.
			switch u.Type {
			case prober.Readiness:
				_, _ = a.status.SetContainerReadiness(u.PodUID, u.ID, u.Result == prober.Success)
			case prober.Startup:
				_, _ = a.status.SetContainerStartup(u.PodUID, u.ID, u.Result == prober.Success)
			}
			a.syncer.wake(u.PodUID)
			a.tracker.Mark(u.PodUID)
		}),
	})
	return &probes{Prober: p, began: time.Now()}, err
}

// runner runs exec probes, if the runtime can.
func (a *Agent) runner() handlers.Runner {
	execer, ok := a.runtime.(runtime.Execer)
	if !ok {
		return nil
	}
	return handlers.RunnerFunc(func(ctx context.Context, id string, cmd []string) (stdout, stderr []byte, code int, err error) {
		parsed, err := runtime.ParseContainerID(id)
		if err != nil {
			return nil, nil, 0, err
		}
		return execer.Exec(ctx, parsed, cmd)
	})
}

// sync tells the prober what of the pod runs.
func (p *probes) sync(pod *v1.Pod, status *v1.PodStatus) {
	p.AddPod(pod, prober.Running(pod, status, p.began))
}

// started and ready answer for instances that have the probe.
func (p *probes) started(id runtime.ContainerID) bool { return p.succeeded(id, prober.Startup) }
func (p *probes) ready(id runtime.ContainerID) bool   { return p.succeeded(id, prober.Readiness) }

func (p *probes) succeeded(id runtime.ContainerID, kind prober.Type) bool {
	result, _ := p.Result(id.String(), kind)
	return result == prober.Success
}

// Liveness implements runtime.Probes.
func (p *probes) Liveness(id runtime.ContainerID) runtime.Verdict {
	return p.verdict(id, prober.Liveness)
}

// Startup implements runtime.Probes.
func (p *probes) Startup(id runtime.ContainerID) runtime.Verdict {
	return p.verdict(id, prober.Startup)
}

func (p *probes) verdict(id runtime.ContainerID, kind prober.Type) runtime.Verdict {
	result, _ := p.Result(id.String(), kind)
	switch result {
	case prober.Success:
		return runtime.VerdictSuccess
	case prober.Failure:
		return runtime.VerdictFailure
	default:
		return runtime.VerdictNone
	}
}

// probed reports whether any container of the pod has a probe.
func probed(pod *v1.Pod) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if c := &list[i]; c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil {
				return true
			}
		}
	}
	return false
}
