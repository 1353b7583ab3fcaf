// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"context"
	"sync"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
)

// driver is a CSI driver that survives agents. It records the requests that no later request has
// undone.
type driver struct {
	place
	*csitest.Driver
	quit func()
	// published are the targets, staged the staging paths.
	published, staged map[string]bool
	calls             map[string]int
}

func startDriver(t *testing.T, p place) *driver {
	t.Helper()
	d := &driver{place: p, published: map[string]bool{}, staged: map[string]bool{}, calls: map[string]int{}}
	d.serve(t)
	return d
}

func (d *driver) serve(t *testing.T) {
	t.Helper()
	var err error
	d.Driver, err = csitest.New(csitest.Options{Dir: d.csi(), Socket: d.place.Socket, Mounter: d.mounter()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = d.Run(ctx) })
	<-d.Listening()
	d.quit = func() {
		cancel()
		wg.Wait()
		if failed != nil {
			t.Error(failed)
		}
	}
}

// rest waits until the driver has completed the requests of a killed agent.
func (d *driver) rest(t *testing.T) {
	t.Helper()
	d.stop()
	d.serve(t)
}

func (d *driver) stop() {
	d.quit()
	for _, c := range d.Calls() {
		d.calls[c.Method]++
		if c.Err != nil {
			continue
		}
		switch r := c.Request.(type) {
		case *spec.NodeStageVolumeRequest:
			d.staged[r.GetStagingTargetPath()] = true
		case *spec.NodeUnstageVolumeRequest:
			delete(d.staged, r.GetStagingTargetPath())
		case *spec.NodePublishVolumeRequest:
			d.published[r.GetTargetPath()] = true
		case *spec.NodeUnpublishVolumeRequest:
			delete(d.published, r.GetTargetPath())
		}
	}
}
