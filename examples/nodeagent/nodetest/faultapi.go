// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// Faults of the API server, and how agents reach it.

// serving is the ability of agents that share a process with the API server.
func serving() ability {
	return ability{percent: 25, word: func(*generator) string { return " sets" }}
}

// apiFaults are the faults that the command "api" injects.
var apiFaults = map[string]statustest.Fault{
	"up":         {},
	"down":       {Err: errAway},
	"hang":       {HangUntilCtx: true},
	"lossy":      {DoneButReplyLost: true},
	"busy":       {Err: apierrors.NewTooManyRequests("later", 2)},
	"overloaded": {Err: apierrors.NewTooManyRequests("much later", 3600)},
	"conflict":   {Err: apierrors.NewConflict(v1.Resource("pods"), "", errInjected)},
	"forbidden":  {Err: apierrors.NewForbidden(v1.Resource("pods"), "", errInjected)},
	"invalid":    {Err: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "", nil)},
	"broken":     {Err: apierrors.NewInternalError(errInjected)},
}

func readAPI(a *args) action {
	kinds := map[string]statusmanager.Request{"get": statusmanager.RequestGet, "patch": statusmanager.RequestPatch, "delete": statusmanager.RequestDelete}
	only, limited := a.option("only")
	kind, known := kinds[only]
	if limited && !known {
		a.fail("only=%s is none of get, patch, delete", only)
	}
	how := a.next("how")
	if _, ok := apiFaults[how]; !ok {
		a.fail("an API server can not be %q", how)
	}
	return func(p *player) error { return p.apiServer(how, kind) }
}

// apiServer injects a fault into every request of a kind, by default into every request. A fault of some requests
// leaves the watch alone.
func (p *player) apiServer(how string, kind statusmanager.Request) error {
	p.clear(labelAPI)
	f, mood := apiFaults[how], Talkative
	f.Request = kind
	if kind == statusmanager.RequestNone && (how == "down" || how == "hang") {
		mood = Silent
	}
	p.node.api.supply.feel(mood)
	p.node.history.outage(outageAPI, how != "up")
	p.node.history.outage(outageWatch, mood == Silent)
	if how == "up" {
		return nil
	}
	in, err := p.server.Inject(f)
	if err == nil {
		p.faults = append(p.faults, labelled{labelAPI, in.Clear})
	}
	return err
}
