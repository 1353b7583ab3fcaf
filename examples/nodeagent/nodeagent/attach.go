// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// Attachments are how the agent and the controller that attaches volumes to
// nodes agree: the node's status says what the agent uses, and what is attached.
type Attachments interface {
	volumemanager.Node
	// ReportInUse makes names the node's status.volumesInUse, and returns what the
	// server has after that.
	ReportInUse(ctx context.Context, names []v1.UniqueVolumeName) ([]v1.UniqueVolumeName, error)
}

// NodeChanged says how the API server's object of this node is now: call it
// whenever that has changed, so that volumes are used as soon as they are
// attached, and pods admitted by its labels and taints. It returns at once and only reads the node.
func (a *Agent) NodeChanged(node *v1.Node) {
	a.volumes.MarkVolumesAsReportedInUse(node.Status.VolumesInUse)
	a.volumes.NodeChanged()
	a.volumes.reporter.compare(node.Status.VolumesInUse)
	a.gate.see(node)
}

// VolumesInUse are the attachable volumes that the agent uses, for who writes the
// node's status as a whole; sorted. They are not known, and what was written
// before has to stay, until the agent has seen what was mounted when it began.
// Cluster.Attachments is told of them in any case, at once.
func (a *Agent) VolumesInUse() (names []v1.UniqueVolumeName, known bool) {
	return a.volumes.GetVolumesInUse(), a.volumes.ReconcilerStatesHasBeenSynced()
}

// ErrNoTokens says that Cluster.Tokens is not set.
var ErrNoTokens = errors.New("nodeagent: there is no source of service account tokens")

// Token returns a token of a pod's service account from the agent's cache: for
// volume plugins that pass tokens on. They are told by a refresh of the pod's
// volumes when it is due.
func (a *Agent) Token(ctx context.Context, r projected.TokenRequest) (projected.Token, error) {
	if a.volumes.tokens == nil {
		return projected.Token{}, ErrNoTokens
	}
	return a.volumes.tokens.Token(ctx, r)
}

// mayHaveToken reports whether a token may be in the volume, or was given to its
// driver.
func mayHaveToken(vol v1.Volume) bool {
	return projected.HasToken(vol) || vol.CSI != nil || vol.PersistentVolumeClaim != nil || vol.Ephemeral != nil
}

// inUse reports the volumes in use, beside everything else: an API server that
// is away holds up only volumes that have to be attached.
type inUse struct {
	volumes *volumes
	server  Attachments // nil: nobody attaches volumes
	wanted  chan struct{}
	log     *zap.Logger
	failed  string
}

// How long a report that failed waits for another try, at first and at most, how
// long one may take, and how long the last one.
const (
	reportPause    = time.Second
	reportPauseMax = 30 * time.Second
	reportTimeout  = 10 * time.Second
	reportDrain    = 2 * time.Second
)

func newInUse(v *volumes, server Attachments, log *zap.Logger) *inUse {
	return &inUse{volumes: v, server: server, wanted: make(chan struct{}, 1), log: log}
}

// poke says that the list may have changed.
func (u *inUse) poke() {
	select {
	case u.wanted <- struct{}{}:
	default:
	}
}

// compare has the list written again if the server has another.
func (u *inUse) compare(reported []v1.UniqueVolumeName) {
	if u.server == nil || !u.volumes.ReconcilerStatesHasBeenSynced() {
		return
	}
	if !slices.Equal(slices.Sorted(slices.Values(reported)), u.volumes.GetVolumesInUse()) {
		u.poke()
	}
}

// run reports until ctx ends, and then once more what has been given up since.
func (u *inUse) run(ctx context.Context) {
	if u.server == nil {
		return
	}
	// What was mounted before must be known: who is not in the list loses it.
	if err := u.volumes.Reconstruct(ctx); err != nil && ctx.Err() != nil {
		return
	}
	u.poke()
	retry := time.NewTimer(time.Hour)
	retry.Stop()
	defer retry.Stop()
	pause := reportPause
	for {
		select {
		case <-ctx.Done():
			u.last(ctx)
			return
		case <-u.wanted:
		case <-retry.C:
		}
		if u.report(ctx, reportTimeout) {
			pause = reportPause
		} else {
			retry.Reset(pause)
			pause = min(2*pause, reportPauseMax)
		}
	}
}

// last reports what changed while ctx ended.
func (u *inUse) last(ctx context.Context) {
	select {
	case <-u.wanted:
		u.report(context.WithoutCancel(ctx), reportDrain)
	default:
	}
}

// report makes one attempt; what fails is logged once, until it fails
// differently.
func (u *inUse) report(ctx context.Context, timeout time.Duration) bool {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reported, err := u.server.ReportInUse(limited, u.volumes.GetVolumesInUse())
	switch {
	case err == nil:
		u.failed = ""
		u.volumes.MarkVolumesAsReportedInUse(reported)
	case ctx.Err() == nil && u.failed != err.Error():
		u.failed = err.Error()
		u.log.Warn("cannot report the volumes in use", zap.Error(err))
	}
	return err == nil
}
