// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// Attachments exchanges the status fields volumesInUse and volumesAttached with the controller that
// attaches volumes.
type Attachments interface {
	volumemanager.Node
	// ReportInUse sets the node's status.volumesInUse to names, and returns the field as stored by
	// the server.
	ReportInUse(ctx context.Context, names []v1.UniqueVolumeName) ([]v1.UniqueVolumeName, error)
}

// NodeChanged passes the current Node object of the API server to Volumes. It does not block and
// only reads the node.
func (v *Volumes) NodeChanged(node *v1.Node) {
	v.MarkVolumesAsReportedInUse(node.Status.VolumesInUse)
	v.Manager.NodeChanged()
	v.reporter.compare(node.Status.VolumesInUse)
}

// ErrNoTokens is returned by Token if Options.Tokens is not set.
var ErrNoTokens = errors.New("node: there is no source of service account tokens")

// Token returns a service account token of a pod from the cache, for volume plugins that pass
// tokens to drivers. When a token is due for renewal, the pod's volumes are refreshed.
func (v *Volumes) Token(ctx context.Context, r projected.TokenRequest) (projected.Token, error) {
	if v.tokens == nil {
		return projected.Token{}, ErrNoTokens
	}
	return v.tokens.Token(ctx, r)
}

// mayHaveToken reports whether the volume or the volume's driver may have a token.
func mayHaveToken(vol v1.Volume) bool {
	return projected.HasToken(vol) || vol.CSI != nil || vol.PersistentVolumeClaim != nil || vol.Ephemeral != nil
}

// inUse reports the volumes in use in a goroutine of its own. If the API server is unreachable,
// only volumes that have to be attached are delayed.
type inUse struct {
	volumes *Volumes
	server  Attachments // nil: no controller attaches volumes
	wanted  signal.Signal
	failed  failurelog.Log
}

// Timing of reports: the first and the longest pause before a retry, the timeout of a report, and
// the timeout of the last report after ctx has ended.
const (
	reportPause    = time.Second
	reportPauseMax = 30 * time.Second
	reportTimeout  = 10 * time.Second
	reportDrain    = 2 * time.Second
)

func newInUse(v *Volumes, server Attachments, log *zap.Logger) *inUse {
	return &inUse{
		volumes: v, server: server, wanted: signal.New(),
		failed: failurelog.Log{Logger: log, Failed: "cannot report the volumes in use"},
	}
}

// compare requests a report if the server's list differs from the volumes in use.
func (u *inUse) compare(reported []v1.UniqueVolumeName) {
	if u.server == nil || !u.volumes.ReconcilerStatesHasBeenSynced() {
		return
	}
	if !slices.Equal(slices.Sorted(slices.Values(reported)), u.volumes.GetVolumesInUse()) {
		u.wanted.Notify()
	}
}

// run reports until ctx ends. If the list has changed by then, run reports it a last time.
func (u *inUse) run(ctx context.Context) {
	if u.server == nil {
		return
	}
	// The volumes of an earlier agent must be known before the first report: the controller
	// detaches volumes that are missing from the list.
	if err := u.volumes.Reconstruct(ctx); err != nil && ctx.Err() != nil {
		return
	}
	u.wanted.Notify()
	var again <-chan time.Time // nil without a failed report
	pause := reportPause
	for {
		select {
		case <-ctx.Done():
			u.last(ctx)
			return
		case <-u.wanted:
		case <-again:
		}
		if u.report(ctx, reportTimeout) {
			pause = reportPause
		} else {
			again = time.After(pause)
			pause = min(2*pause, reportPauseMax)
		}
	}
}

// last sends a report if the list changed while ctx ended.
func (u *inUse) last(ctx context.Context) {
	select {
	case <-u.wanted:
		u.report(context.WithoutCancel(ctx), reportDrain)
	default:
	}
}

// report sends the list once, and reports whether that succeeded. An error is logged if its text
// differs from the error before.
func (u *inUse) report(ctx context.Context, timeout time.Duration) bool {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reported, err := u.server.ReportInUse(limited, u.volumes.GetVolumesInUse())
	if ctx.Err() == nil {
		u.failed.Report(err)
	}
	if err == nil {
		u.volumes.MarkVolumesAsReportedInUse(reported)
	}
	return err == nil
}

// reasonAttachLimit is the kubelet's reason (1.36) for a pod with more volumes than the node can
// attach.
const reasonAttachLimit = "VolumeAttachmentLimitExceeded"

// rejectLate fails an admitted pod. The pod's controller then creates a replacement for another
// node.
func (v *Volumes) rejectLate(pod *v1.Pod, message string) {
	if v.host.Workers.IsPodTerminationRequested(pod.UID) {
		return
	}
	v.host.TellRefusal(pod, reasonAttachLimit, message)
	v.host.Fail(pod, feature.Failure{Reason: reasonAttachLimit, Message: feature.RefusedPrefix + message})
}
