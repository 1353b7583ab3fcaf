// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/runtime"
)

// ProbeCommand returns the command with which a probe of a container on a Node calls a
// fake.Script's Exec: the command of an exec probe, else the kind and the target of the probe, such
// as "httpGet", "8080", "/healthz".
func ProbeCommand(t prober.Target) []string {
	switch p := t.Probe; {
	case p.Exec != nil:
		return p.Exec.Command
	case p.HTTPGet != nil:
		return []string{"httpGet", p.HTTPGet.Port.String(), p.HTTPGet.Path}
	case p.TCPSocket != nil:
		return []string{"tcpSocket", p.TCPSocket.Port.String()}
	case p.GRPC != nil && p.GRPC.Service != nil:
		return []string{"grpc", fmt.Sprint(p.GRPC.Port), *p.GRPC.Service}
	case p.GRPC != nil:
		return []string{"grpc", fmt.Sprint(p.GRPC.Port)}
	}
	return nil
}

// probe answers every probe by the container's script, and records the answer. There is no network:
// by default an instance is healthy after its Script.ReadyAfter.
func probe(rt runtime.Execer, history *recorder) prober.Handler {
	return prober.HandlerFunc(func(ctx context.Context, t prober.Target) (prober.Outcome, error) {
		id, err := runtime.ParseContainerID(t.Instance.ID)
		if err != nil {
			return prober.Outcome{}, err
		}
		out, _, code, err := rt.Exec(ctx, id, ProbeCommand(t))
		if err != nil {
			return prober.Outcome{}, err
		}
		if history.sickNow(t.Pod.UID, t.Container.Name) {
			code, out = 1, []byte("sick")
		}
		history.probed(t, code == 0)
		if code != 0 {
			return prober.Outcome{Verdict: prober.VerdictFailure, Output: fmt.Sprintf("exit code %d: %s", code, out)}, nil
		}
		return prober.Outcome{Verdict: prober.VerdictSuccess, Output: string(out)}, nil
	})
}
