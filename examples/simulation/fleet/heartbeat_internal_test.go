// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ledger is an API server that notes the times of its requests.
type ledger struct {
	mu       sync.Mutex
	down     bool
	reads    map[string][]time.Time // of nodes
	renewals map[string][]time.Time
}

func newLedger() *ledger {
	return &ledger{reads: map[string][]time.Time{}, renewals: map[string][]time.Time{}}
}

var errDown = errors.New("the server is down")

func (l *ledger) note(in map[string][]time.Time, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return errDown
	}
	in[name] = append(in[name], time.Now())
	return nil
}

type ledgerNodes struct{ *ledger }

func (n ledgerNodes) Create(_ context.Context, node *v1.Node, _ metav1.CreateOptions) (*v1.Node, error) {
	return node, nil
}

func (n ledgerNodes) Get(_ context.Context, name string, _ metav1.GetOptions) (*v1.Node, error) {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}, n.note(n.reads, name)
}

func (n ledgerNodes) Patch(_ context.Context, name string, _ types.PatchType, _ []byte, _ metav1.PatchOptions, _ ...string) (*v1.Node, error) {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}, nil
}

type ledgerLeases struct{ *ledger }

func (l ledgerLeases) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), "")
}

func (l ledgerLeases) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return lease, l.note(l.renewals, lease.Name)
}

func (l ledgerLeases) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return lease, l.note(l.renewals, lease.Name)
}

// TestHeartbeats: each lease is renewed every 10 s and each node is read every minute, at few instants that all nodes
// share, also after an outage of the server. The reads are spread over the minute.
func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 5*registrars + 3
		var nodes []*v1.Node
		for i := range count {
			nodes = append(nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("sim-", i)}})
		}
		server := newLedger()
		h, err := newHeartbeats(ledgerNodes{server}, ledgerLeases{server}, nodes, zap.NewNop())
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.run(ctx)
		}()
		select {
		case <-h.registered:
		case <-time.After(time.Minute):
			require.Fail(t, "the nodes are not registered")
		}
		server.mu.Lock()
		server.down = true
		server.mu.Unlock()
		time.Sleep(73 * time.Second)
		server.mu.Lock()
		server.down = false
		clear(server.reads)
		clear(server.renewals)
		server.mu.Unlock()
		settled := time.Now().Add(time.Minute) // each node is read at once after the outage
		time.Sleep(10*time.Minute - 73*time.Second)
		stop()
		<-done
		require.Len(t, server.renewals, count)
		instants, reads := map[time.Time]bool{}, map[time.Time]int{}
		for name, times := range server.renewals {
			for i, at := range times {
				instants[at] = true
				if i > 0 {
					assert.Equal(t, renewInterval, at.Sub(times[i-1]), name)
				}
			}
			require.GreaterOrEqual(t, len(server.reads[name]), 7, name)
			for _, at := range server.reads[name] {
				if at.After(settled) {
					reads[at.Truncate(renewInterval)]++
				}
			}
		}
		assert.LessOrEqual(t, len(instants), 6*54, "groups of %d nodes", registrars)
		for at, n := range reads {
			assert.LessOrEqual(t, n, count/3, "reads of nodes in the 10 s from %s", at)
		}
	})
}
