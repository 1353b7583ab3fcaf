// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// request carries out a request on the server.
type request func(context.Context) (*v1.Pod, error)

// answer replaces the answer to a request.
type answer func(p *theatre, ctx context.Context, do request) (*v1.Pod, error)

// hostile is a connection to a server. choose returns another answer to a request, or nil.
type hostile struct {
	*statustest.Client
	p      *theatre
	mu     sync.Mutex
	choose func(statusmanager.Request) answer
}

func (h *hostile) strike(choose func(statusmanager.Request) answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.choose = choose
}

func (h *hostile) do(ctx context.Context, kind statusmanager.Request, do request) (*v1.Pod, error) {
	h.mu.Lock()
	var other answer
	if h.choose != nil {
		other = h.choose(kind)
	}
	h.mu.Unlock()
	if other != nil {
		time.Sleep(time.Millisecond)
		return other(h.p, ctx, do)
	}
	return do(ctx)
}

func (h *hostile) GetPod(ctx context.Context, ref statusmanager.PodRef) (*v1.Pod, error) {
	return h.do(ctx, statusmanager.RequestGet, func(ctx context.Context) (*v1.Pod, error) { return h.Client.GetPod(ctx, ref) })
}

func (h *hostile) PatchStatus(ctx context.Context, ref statusmanager.PodRef, patch []byte) (*v1.Pod, error) {
	return h.do(ctx, statusmanager.RequestPatch, func(ctx context.Context) (*v1.Pod, error) { return h.Client.PatchStatus(ctx, ref, patch) })
}

func (h *hostile) SetStatus(ctx context.Context, ref statusmanager.PodRef, p statusmanager.Patch) (*v1.Pod, error) {
	return h.do(ctx, statusmanager.RequestPatch, func(ctx context.Context) (*v1.Pod, error) { return h.Client.SetStatus(ctx, ref, p) })
}

func (h *hostile) DeletePod(ctx context.Context, ref statusmanager.PodRef) error {
	_, err := h.do(ctx, statusmanager.RequestDelete, func(ctx context.Context) (*v1.Pod, error) { return nil, h.Client.DeletePod(ctx, ref) })
	return err
}

// getting hides the Setter of a hostile connection.
type getting struct {
	statusmanager.Patcher
	statusmanager.Getter
}

// theatre is a Manager with a hostile connection to its server, and a pod.
type theatre struct {
	casetest.Notes
	*statusmanager.Manager
	t       *testing.T
	server  *statustest.Server
	wire    *hostile
	pod     *v1.Pod
	mayRun  atomic.Bool
	stop    func()
	done    chan error // of Run
	stopped atomic.Bool

	mu      sync.Mutex
	seam    string // event happens in the next call of the seam
	event   func(*theatre)
	visited map[string]bool // seams
}

// surprise makes an event happen in the next call of a seam.
func (p *theatre) surprise(seam string, event func(*theatre)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seam, p.event = seam, event
	clear(p.visited)
}

// visit is called in each call of a seam.
func (p *theatre) visit(seam string) {
	p.mu.Lock()
	event := p.event
	if p.visited[seam] = true; seam == p.seam {
		p.seam = ""
	} else {
		event = nil
	}
	p.mu.Unlock()
	if event != nil {
		time.Sleep(time.Millisecond) // goroutines of the same instant have an order
		event(p)
		time.Sleep(time.Millisecond)
	}
}

// Pod, Mirror and Static are the cache of the server's pods.
func (p *theatre) Pod(uid types.UID) (*v1.Pod, bool) {
	p.visit("Pods")
	return p.server.Pod(uid)
}

func (p *theatre) Mirror(uid types.UID) (*v1.Pod, bool) {
	p.visit("Pods")
	return p.server.Mirror(uid)
}

func (p *theatre) Static(uid types.UID) (types.UID, bool) { return p.server.Static(uid) }

// set sets a status; a failure is noted.
func (p *theatre) set(phase v1.PodPhase, containers ...v1.ContainerStatus) {
	if _, err := p.SetPodStatus(p.pod, status(phase, containers...)); err != nil {
		p.Note("set: %v", err)
	}
}

func (p *theatre) terminate() {
	if _, err := p.TerminatePod(p.pod); err != nil {
		p.Note("terminate: %v", err)
	}
}

// change edits the pod like another writer.
func (p *theatre) change(edit func(*v1.Pod)) {
	for _, pod := range p.server.Pods() {
		_, err := p.server.Change(pod.UID, edit)
		require.NoError(p.t, err)
	}
}

func (p *theatre) delete() {
	pod, err := p.server.Delete(p.pod.UID)
	require.NoError(p.t, err)
	p.pod = pod
}

// forget makes the Manager forget all pods, twice.
func (p *theatre) forget() {
	for range 2 {
		p.RemoveOrphanedStatuses(func(uid types.UID) bool {
			p.Note("forget %s", uid)
			return false
		})
		_, known := p.GetPodStatus(p.pod.UID)
		p.Note("known %t", known)
	}
}

// wait notes when the server has the status, or why not.
func (p *theatre) wait() {
	ctx, cancel := context.WithTimeout(p.t.Context(), 11*time.Minute)
	defer cancel()
	uid := p.pod.UID
	if mirror, ok := p.server.Mirror(uid); ok {
		uid = mirror.UID
	}
	p.Note("waited: %v", p.WaitSynced(ctx, uid))
}

// replace replaces the pods of the server by pods of the same names.
func (p *theatre) replace() {
	for _, pod := range p.server.Pods() {
		next := pod.DeepCopy()
		next.UID, next.Status = "", v1.PodStatus{Phase: v1.PodPending}
		p.server.Create(next)
	}
}
