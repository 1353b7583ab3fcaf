// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// plain is the source of a node's pods with Options.Plain: the changes on Options.Server, without the
// reflector of client-go.
type plain struct {
	client *statustest.Client
	node   string
}

// Name implements podconfig.Source.
func (p plain) Name() string { return podconfig.SourceAPI }

// followAgain is the pause after a failed connection.
const followAgain = time.Second

// Run implements podconfig.Source.
func (p plain) Run(ctx context.Context, out podconfig.Sink) error {
	for ctx.Err() == nil {
		refused, err := p.follow(ctx, out)
		if refused {
			return err
		}
		if err != nil {
			_ = retry.Sleep(ctx, followAgain)
		}
	}
	return nil
}

// follow submits the present pods and their changes until the watch ends. refused reports an error of out.
func (p plain) follow(ctx context.Context, out podconfig.Sink) (refused bool, err error) {
	var first []*v1.Pod
	complete := false // the present pods are submitted
	submit := func(c podconfig.Change) error {
		err := out.Submit(ctx, c)
		refused = err != nil
		return err
	}
	err = p.client.Follow(ctx, p.node, func(e watch.Event) error {
		pod, _ := e.Object.(*v1.Pod)
		switch {
		case e.Type == watch.Bookmark && !complete:
			complete = true
			return submit(podconfig.Snapshot(first...).Given())
		case e.Type == watch.Added && !complete:
			first = append(first, pod)
		case e.Type == watch.Added, e.Type == watch.Modified:
			return submit(podconfig.Upsert(pod).Given())
		case e.Type == watch.Deleted:
			return submit(podconfig.Remove(pod.UID))
		}
		return nil
	})
	return refused, err
}
