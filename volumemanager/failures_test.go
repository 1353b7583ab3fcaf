// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// Methods of the scenes.

func (p *theatre) mount(pod *v1.Pod) {
	began := time.Now()
	err := p.m().WaitForAttachAndMount(p.t.Context(), pod)
	p.Note("mounted %s after %v: %v", pod.Name, time.Since(began), err)
}

func (p *theatre) remove(uid types.UID) {
	p.pods.Set(uid, volumetest.Gone)
	began := time.Now()
	err := p.m().WaitForUnmount(p.t.Context(), uid)
	p.Note("unmounted %s after %v: %v", uid, time.Since(began), err)
}

func (p *theatre) clean() {
	err := p.m().CleanupOrphans(p.t.Context(), func(types.UID) bool { return false })
	p.Note("cleaned up: %v", err)
}

// own is a pod with two volumes of its own, and claiming one with the volume of a claim.
func own() *v1.Pod {
	pod := podWith("a", "v", "w")
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(7)), RunAsUser: new(int64(8))}
	return pod
}

func claiming(uid types.UID) *v1.Pod { return podClaiming(uid, "c") }

// report tells the Manager that the node's status shows the volumes in use, as an agent does.
func (p *theatre) report() { p.m().MarkVolumesAsReportedInUse(p.m().GetVolumesInUse()) }

// create makes a Manager, and m returns it.
func (p *theatre) create() *volumemanager.Manager {
	m, err := volumemanager.New(p.options)
	require.NoError(p.t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.manager = m
	return m
}

func (p *theatre) m() *volumemanager.Manager {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.manager
}

// end ends Run.
func (p *theatre) end() {
	p.mu.Lock()
	stop := p.stop
	p.mu.Unlock()
	stop()
}

// ended waits for the end of Run.
func (p *theatre) ended() error {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	return <-done
}

// run starts a Manager on the disk and the mounts of the earlier Manager.
func (p *theatre) run() {
	p.mu.Lock()
	p.stopped = p.stopped || p.lost
	p.mu.Unlock()
	m := p.create()
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	p.mu.Lock()
	p.stop, p.done = cancel, done
	p.mu.Unlock()
	go func() { done <- m.Run(ctx) }()
}

func (p *theatre) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = true
}

// restart ends the Manager and runs another.
func (p *theatre) restart() {
	p.end()
	p.Plugin.Release()
	require.NoError(p.t, p.ended())
	p.run()
	synctest.Wait()
}

// scene is a call of a Manager, after a prelude.
type scene struct {
	name    string
	plugin  volumetest.Options
	node    bool // attaches volumes
	options func(*volumemanager.Options)
	prelude func(p *theatre)
	call    func(p *theatre)
}

var (
	private = volumetest.Options{Folders: true}
	shared  = volumetest.Options{Folders: true, Shared: true, Staged: true}
	remote  = volumetest.Options{Folders: true, Shared: true, Staged: true, Attachable: true}
)

var scenes = []scene{
	{name: "mount", plugin: private, call: func(p *theatre) { p.mount(own()) }},
	{name: "refresh", plugin: volumetest.Options{Refresh: true}, prelude: func(p *theatre) { p.mount(own()) }, call: func(p *theatre) { p.mount(own()) }},
	{name: "unmount", plugin: private, prelude: func(p *theatre) { p.mount(own()) }, call: func(p *theatre) { p.remove("a") }},
	{name: "mount of a claim", plugin: remote, node: true, call: func(p *theatre) { p.mount(claiming("a")) }},
	{name: "mount by a second pod", plugin: remote, node: true, prelude: func(p *theatre) { p.mount(claiming("a")) }, call: func(p *theatre) { p.mount(claiming("b")) }},
	{name: "unmount of a claim", plugin: remote, node: true, prelude: func(p *theatre) { p.mount(claiming("a")) }, call: func(p *theatre) { p.remove("a") }},
	{name: "expansion", plugin: shared, prelude: func(p *theatre) { p.mount(claiming("a")) }, call: func(p *theatre) {
		p.mu.Lock()
		p.size = "2Gi"
		p.mu.Unlock()
		p.mount(claiming("a"))
	}},
	{name: "expansion before the mount", plugin: shared, call: func(p *theatre) {
		p.mu.Lock()
		p.size = "2Gi"
		p.mu.Unlock()
		p.mount(claiming("a"))
	}},
	{name: "block volume", plugin: shared, prelude: func(p *theatre) { p.block = true }, call: func(p *theatre) {
		p.mount(claiming("a"))
		p.remove("a")
	}},
	{name: "exclusive volume", plugin: shared, prelude: func(p *theatre) {
		p.mode = v1.ReadWriteOncePod
		p.mount(claiming("a"))
	}, call: func(p *theatre) {
		time.AfterFunc(time.Second, func() { p.remove("a") })
		p.mount(claiming("b"))
	}},
	{name: "mount after a restart", plugin: shared, prelude: func(p *theatre) {
		p.mount(claiming("a"))
		p.restart()
	}, call: func(p *theatre) { p.mount(claiming("a")) }},
	{name: "restart with a pod that is gone", plugin: shared, prelude: func(p *theatre) { p.mount(claiming("a")) }, call: func(p *theatre) {
		p.pods.Set("a", volumetest.Gone)
		p.restart()
	}},
	{name: "no seam for pods", plugin: private, options: func(o *volumemanager.Options) { o.Pods = nil }, call: func(p *theatre) {
		p.mount(own())
		p.remove("a")
		p.mount(own())
		p.clean()
	}},
	{name: "reconcile without Run", plugin: shared, prelude: func(p *theatre) {
		p.end()
		p.ended()
		p.create()
	}, call: func(p *theatre) {
		go p.mount(claiming("a"))
		for i := range 6 {
			synctest.Wait()
			for _, o := range p.m().Plan() {
				p.Note("due: %s of %s %s, attempt %d", o.Kind, o.PodUID, o.Outer, o.Attempt)
			}
			p.Note("reconciled: %v", p.m().Reconcile(p.t.Context()))
			time.Sleep(10*time.Second + time.Duration(i)*time.Millisecond)
		}
		p.pods.Set("a", volumetest.Gone)
		p.m().PodChanged("a")
		synctest.Wait()
		p.Note("reconciled: %v", p.m().Reconcile(p.t.Context()))
		p.run()
	}},
	{name: "clean-up", plugin: private, prelude: func(p *theatre) {
		p.mount(own())
		p.end()
		p.ended()
		p.files("pods/c/volumes/example.com~fake/v/", "pods/d/volumes/x.com~y/v/", "pods/e/")
		p.run()
		for _, uid := range []types.UID{"c", "d", "e"} {
			p.pods.Set(uid, volumetest.Gone)
		}
		synctest.Wait()
	}, call: func(p *theatre) {
		p.pods.Set("a", volumetest.Gone)
		p.clean()
		time.Sleep(time.Second)
		p.clean()
	}},
}

// files creates files, and folders whose names end in a slash.
func (p *theatre) files(names ...string) {
	for _, name := range names {
		path := filepath.Join(p.root, name)
		require.NoError(p.t, os.MkdirAll(filepath.Dir(path), 0o750))
		if strings.HasSuffix(name, "/") {
			require.NoError(p.t, os.MkdirAll(path, 0o750))
			continue
		}
		require.NoError(p.t, os.WriteFile(path, nil, 0o600))
	}
}

// strikes are the answers to struck calls.
var strikes = []struct {
	name   string
	answer answer
}{
	{"fails", failsWith(func(err error) error { return err })},
	{"fails for now", failsWith(volumemanager.Transient)},
	{"fails finally", failsWith(volumemanager.Final)},
	{"fails for ever", failsWith(volumemanager.Terminal)},
	{"fails too late", func(_ *theatre, ctx context.Context, do func(context.Context) error) error {
		return errors.Join(do(ctx), errors.New("broken"))
	}},
	{"hangs", func(_ *theatre, ctx context.Context, _ func(context.Context) error) error {
		select {
		case <-ctx.Done():
		case <-time.After(time.Hour):
		}
		return ctx.Err()
	}},
	{"is slow", func(_ *theatre, ctx context.Context, do func(context.Context) error) error {
		time.Sleep(20 * time.Second)
		return do(ctx)
	}},
	{"ignores its limit", func(_ *theatre, ctx context.Context, do func(context.Context) error) error {
		time.Sleep(4 * time.Minute)
		return do(context.WithoutCancel(ctx))
	}},
	{"does nothing", func(*theatre, context.Context, func(context.Context) error) error { return nil }},
}

func failsWith(class func(error) error) answer {
	return func(*theatre, context.Context, func(context.Context) error) error { return class(errors.New("broken")) }
}

// event happens during a call.
type event struct {
	name   string
	happen func(p *theatre)
}

var events = []event{
	{"the end of the pod", func(p *theatre) {
		p.pods.Set("a", volumetest.Gone)
		p.m().PodChanged("a")
	}},
	{"an unnoticed end", func(p *theatre) { p.pods.Set("a", volumetest.Gone) }},
	{"a termination", func(p *theatre) {
		p.pods.Set("a", volumetest.Terminating)
		p.m().PodChanged("a")
	}},
	{"a return of the pod", func(p *theatre) {
		p.pods.Set("a", volumetest.Gone)
		p.m().PodChanged("a")
		time.Sleep(10 * time.Millisecond)
		p.pods.Set("a", volumetest.Alive)
		p.m().PodChanged("a")
	}},
	{"another call", func(p *theatre) { go p.mount(own()) }},
	{"a second claim", func(p *theatre) { go p.mount(claiming("b")) }},
	{"a refresh", func(p *theatre) { p.m().Refresh(func(*v1.Pod, v1.Volume) bool { return true }) }},
	{"a change of the node", func(p *theatre) { p.m().NodeChanged() }},
	{"a clean-up", (*theatre).clean},
	{"a stop", func(p *theatre) {
		p.end()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stopped = true
	}},
	{"a loss of the disk", func(p *theatre) {
		p.lose()
		require.NoError(p.t, os.RemoveAll(p.root))
		p.files("pods/a", "volumemanager")
	}},
	{"a loss of the records", func(p *theatre) {
		p.lose()
		for _, dir := range []string{"pods/a", "volumemanager/devices"} {
			records, _ := filepath.Glob(filepath.Join(p.root, dir, "*.json"))
			for _, r := range records {
				require.NoError(p.t, os.Remove(r))
				require.NoError(p.t, os.MkdirAll(r+"/x", 0o750))
			}
		}
	}},
}

// during is the answer after an event in the middle of the call.
func (e event) during(then answer) answer {
	return func(p *theatre, ctx context.Context, do func(context.Context) error) error {
		time.Sleep(100 * time.Millisecond)
		e.happen(p)
		time.Sleep(100 * time.Millisecond)
		return then(p, ctx, do)
	}
}

func succeeds(_ *theatre, ctx context.Context, do func(context.Context) error) error { return do(ctx) }

// TestHostileSeams makes each call of a seam in each scene fail with each class of error, hang, come late, ignore its limit
// and lie, once or always. Further cases have an event during a call, or several of all that. In every case nothing stays mounted
// after the end of the pods, and no file stays open.
func TestHostileSeams(t *testing.T) {
	for _, s := range scenes {
		for _, seam := range s.play(t, "", func(*theatre) {}) {
			strike := func(name string, times int, a answer) {
				s.play(t, seam+" "+name, func(p *theatre) {
					left := times
					p.strike(func(other string) answer {
						if left == 0 || other != seam {
							return nil
						}
						left--
						return a
					})
				})
			}
			if seam != "Pods" {
				for _, a := range strikes {
					if seam == "Resolve" && a.name == "ignores its limit" || s.name == "exclusive volume" && seam == "TearDown" && a.name == "does nothing" {
						continue // two things happen at the same instant
					}
					strike(a.name, 1, a.answer)
					if a.name == "fails" || a.name == "hangs" || a.name == "fails for ever" {
						strike(a.name+" always", -1, a.answer)
					}
				}
			}
			for _, e := range events {
				if e.name == "an unnoticed end" && s.name == "reconcile without Run" || e.name == "another call" && s.name == "no seam for pods" {
					continue // a mount ends at the instant at which an unmount begins
				}
				strike("succeeds after "+e.name, 1, e.during(succeeds))
				if strings.HasPrefix(seam, "SetUp") || strings.HasSuffix(seam, "Device") {
					strike("fails after "+e.name, 1, e.during(strikes[0].answer))
				}
			}
		}
		for seed := range uint64(6) {
			s.play(t, fmt.Sprint("seed ", seed), func(p *theatre) {
				rng, left := rand.New(rand.NewPCG(seed, 0)), 6
				p.strike(func(seam string) answer {
					if left--; left < 0 || seam == "Pods" {
						return nil
					}
					a := strikes[rng.IntN(len(strikes))]
					if rng.IntN(3) > 0 {
						return a.answer
					}
					return events[rng.IntN(len(events)-3)].during(a.answer)
				})
			})
		}
	}
}

// play plays a case in a scene. The result has the seams that the scene uses.
func (s scene) play(t *testing.T, name string, arrange func(*theatre)) (seams []string) {
	if name != "" && !casetest.Chosen(s.name+name) {
		return
	}
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		p := s.raise(t, root)
		if s.prelude != nil {
			s.prelude(p)
			time.Sleep(90 * time.Second)
		}
		p.Begin()
		p.strike(nil)
		arrange(p)
		go s.call(p)
		time.Sleep(12 * time.Minute)
		synctest.Wait()
		p.mu.Lock()
		seams = slices.Sorted(maps.Keys(p.visited))
		p.mu.Unlock()
		p.strike(nil)
		if info, err := os.Stat(root + "/pods/a"); err == nil && !info.IsDir() {
			require.NoError(t, os.Remove(root+"/pods/a"))
			require.NoError(t, os.RemoveAll(root+"/volumemanager"))
		}
		time.Sleep(2 * time.Hour)
		p.Begin()
		for _, uid := range []types.UID{"a", "b", "c", "d", "e"} {
			p.remove(uid)
		}
		p.clean()
		synctest.Wait()
		if !p.stopped { // and no Manager has begun without the records
			require.Empty(t, p.Plugin.Mounted(), "%s, %s:\n%s", s.name, name, p.Lines(60))
			require.Empty(t, p.m().Snapshot().Volumes, "%s, %s", s.name, name)
		}
		p.end()
		require.NoError(t, p.ended())
	})
	require.Empty(t, openBelow(root), "%s, %s", s.name, name)
	return seams
}

// openBelow returns the files that this process has open below a folder; none without Linux.
func openBelow(dir string) (open []string) {
	const descriptors = "/proc/self/fd"
	entries, _ := os.ReadDir(descriptors)
	for _, e := range entries {
		if file, err := os.Readlink(filepath.Join(descriptors, e.Name())); err == nil && strings.HasPrefix(file, dir) {
			open = append(open, file)
		}
	}
	return open
}

// raise prepares a Manager.
func (s scene) raise(t *testing.T, root string) *theatre {
	p := &theatre{t: t, root: root, pods: &volumetest.Pods{}, visited: map[string]bool{}, size: "1Gi", mode: v1.ReadWriteMany}
	s.plugin.Gone = p.pods.ShouldPodRuntimeBeRemoved
	p.Plugin = volumetest.NewPlugin(s.plugin)
	p.attached = map[v1.UniqueVolumeName]string{attachedName: "/dev/hint"}
	p.options = volumemanager.Options{
		Pods: p, Root: root, Plugins: []volumemanager.Plugin{p}, Claims: p, Subpaths: p, Mounts: p,
		Logger: p.Logger(),
		Hooks: volumemanager.Hooks{
			OperationEnded: func(e volumemanager.OperationEnd) {
				pod := "-"
				if e.Pod != nil {
					pod = e.Pod.Name
				}
				waited := "-"
				if !e.Requested.IsZero() {
					waited = e.Ended.Sub(e.Requested).String()
				}
				p.Note("ended: %s %s of %s %s %s, attempt %d, queued %v, started %v, limit %v, took %v, waited %s: %v", e.Kind, e.Volume,
					e.PodUID, pod, e.Outer, e.Attempt, p.Since(e.Queued), p.Since(e.Started), e.Deadline.Sub(e.Started), e.Ended.Sub(e.Queued),
					waited, e.Err)
			},
			InUseChanged: func() {
				p.Note("in use: %s", p.m().GetVolumesInUse())
				time.AfterFunc(10*time.Millisecond, p.report)
			},
		},
	}
	if s.node {
		p.options.Node = p
	}
	if s.options != nil {
		s.options(&p.options)
	}
	p.Begin()
	p.run()
	synctest.Wait()
	return p
}
