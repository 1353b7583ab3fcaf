// SPDX-License-Identifier: Apache-2.0

package hotplug

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// period is the time between two looks at the devices. A look is two system calls for each device.
const period = 200 * time.Millisecond

// Options configure the feature.
type Options struct {
	// Dir is the folder with all devices. A link that leads out of Dir is refused. Defaults to /dev.
	Dir string
}

// state is the state of a pod in the node's table.
type state struct {
	Record
	due   time.Time // time of the next decision; zero: after a change
	grant grant     // for the next agent, or of the earlier agent
}

type watcher struct {
	host *feature.Host
	dir  string
	pods *feature.Slot[state]
	wake signal.Signal // there is a pod with a Policy, or a grant has changed
	memory
}

// New returns the feature, for node.Options.Features.
func New(h *feature.Host, o Options) feature.Feature {
	w := &watcher{host: h, dir: "/dev", pods: feature.NewSlot[state](h.Table), wake: signal.New(),
		memory: memory{path: filepath.Join(h.Root, "hotplug.json"), log: h.Log,
			failed: failurelog.Log{Logger: h.Log, Failed: "cannot remember the devices of containers for the next agent"}}}
	if o.Dir != "" {
		w.dir = filepath.Clean(o.Dir)
	}
	return feature.Feature{Name: "hotplug", Open: w.open, Check: w.check, Hook: podsync.Hook{Around: w.around, Synced: w.synced}, Run: w.run}
}

// open reads the grants of the earlier agent.
func (w *watcher) open() {
	for uid, g := range w.load() {
		w.pods.Set(uid, state{grant: g})
	}
}

// check refuses pods whose annotation cannot be honoured.
func (w *watcher) check(pod *v1.Pod) (refused []string) {
	policy, isSet := pod.Annotations[Annotation]
	if !isSet {
		return nil
	}
	refuse := func(format string, args ...any) {
		refused = append(refused, fmt.Sprintf("metadata.annotations["+Annotation+"] ("+format+")", args...))
	}
	switch Policy(policy) {
	case Keep, Stop, Restart:
	default:
		refuse("%q: want %s, %s or %s", policy, Keep, Stop, Restart)
	}
	if pod.Spec.RestartPolicy != v1.RestartPolicyAlways {
		refuse("spec.restartPolicy is %s: want %s", pod.Spec.RestartPolicy, v1.RestartPolicyAlways)
	}
	devices := devicesOf(pod)
	if len(devices) == 0 {
		refuse("spec.volumes has no hostPath of type %s or %s", v1.HostPathCharDev, v1.HostPathBlockDev)
	}
	for _, d := range devices {
		if !w.isInside(filepath.Clean(d.HostPath.Path)) {
			refuse("spec.volumes[%s].hostPath.path %s is not in %s", d.Name, d.HostPath.Path, w.dir)
		}
	}
	return refused
}

// devicesOf returns the volumes of a pod that are device nodes.
func devicesOf(pod *v1.Pod) (all []*v1.Volume) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.HostPath != nil && v.HostPath.Type != nil && (*v.HostPath.Type == v1.HostPathCharDev || *v.HostPath.Type == v1.HostPathBlockDev) {
			all = append(all, v)
		}
	}
	return all
}

func (w *watcher) isInside(path string) bool { return strings.HasPrefix(path, w.dir+"/") }

// look returns the devices of a pod.
func (w *watcher) look(pod *v1.Pod) (f Facts) {
	for _, v := range devicesOf(pod) {
		node, number, err := w.lookAt(v.HostPath)
		if err != nil {
			return Facts{Missing: fmt.Sprintf("device %s of volume %s: %s", v.HostPath.Path, v.Name, err)}
		}
		f.Nodes += node + " "
		f.Numbers += number + " "
	}
	return f
}

// lookAt returns texts that identify the node and the number of a device.
func (w *watcher) lookAt(h *v1.HostPathVolumeSource) (node, number string, err error) {
	path, err := filepath.EvalSymlinks(h.Path)
	if errors.Is(err, os.ErrNotExist) {
		return "", "", errors.New("is not plugged in")
	}
	if err != nil {
		return "", "", err
	}
	if !w.isInside(path) {
		return "", "", fmt.Errorf("leads out of %s, to %s", w.dir, path)
	}
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_BTIME, &s); err != nil {
		return "", "", err
	}
	kind, want := s.Mode&unix.S_IFMT, uint16(unix.S_IFCHR)
	if *h.Type == v1.HostPathBlockDev {
		want = unix.S_IFBLK
	}
	if kind != want {
		return "", "", fmt.Errorf("%s is not a %s", path, *h.Type)
	}
	number = fmt.Sprintf("%o:%d:%d", kind, s.Rdev_major, s.Rdev_minor)
	// The time of the node's creation tells it from a later node with the same inode number.
	return fmt.Sprintf("%s:%d:%d:%d:%d.%d", number, s.Dev_major, s.Dev_minor, s.Ino, s.Btime.Sec, s.Btime.Nsec), number, nil
}

// around decides before each sync of a pod. The error of a pod that waits names the device.
func (w *watcher) around(ctx context.Context, req *runtime.SyncRequest) (undo func(), err error) {
	pod := req.Pod
	policy := Policy(pod.Annotations[Annotation])
	if policy == "" {
		return nil, nil
	}
	facts, now := w.look(pod), time.Now()
	var action Action
	var isNews bool
	w.pods.With(pod.UID, func(s *state) {
		if s.Record == (Record{}) && req.Status != nil && len(req.Status.Running()) > 0 {
			s.Has = startedWith(s.grant, req.Status, facts)
		}
		isNews = facts.Missing != "" && s.Seen.Missing == ""
		s.Record, action = Decide(policy, s.Record, facts, now)
		s.due = time.Time{}
		if action.After > 0 {
			s.due = now.Add(action.After)
		}
	})
	w.wake.Notify()
	if isNews {
		w.host.Event(pod, v1.EventTypeWarning, "DeviceUnplugged", facts.Missing)
	}
	if action.Stop {
		result := w.host.Manager.KillPod(ctx, runtime.KillRequest{Pod: pod})
		if err := result.Err(); err != nil {
			return nil, fmt.Errorf("hotplug: stop the containers: %w", err)
		}
		if len(result.Status.Running()) > 0 {
			return nil, errors.New("hotplug: the containers are still running")
		}
		w.pods.With(pod.UID, func(s *state) {
			s.Record = s.Stopped(time.Now())
			s.due = time.Now().Add(s.Settle)
		})
	}
	switch {
	case action.Start:
		return nil, nil
	case facts.Missing != "":
		return nil, fmt.Errorf("hotplug: %s", facts.Missing)
	}
	return nil, errors.New("hotplug: the devices have changed: the containers start when the devices are stable")
}

// startedWith returns the devices of containers that an earlier agent has started. Without a grant,
// these are the present devices, or unknown devices if a device is missing now.
func startedWith(g grant, status *runtime.PodStatus, present Facts) Facts {
	if has, ok := g.facts(sandboxOf(status)); ok {
		return has
	}
	if present.Missing != "" {
		return Facts{Numbers: "unknown"}
	}
	return present
}

// sandboxOf returns the ID of the current sandbox of a pod, or "".
func sandboxOf(status *runtime.PodStatus) string {
	if current := status.Current(); current != nil {
		return string(current.ID)
	}
	return ""
}

// synced keeps the devices of the containers that a sync has started, or found.
func (w *watcher) synced(_ context.Context, pod *v1.Pod, result *runtime.Result) {
	sandbox := sandboxOf(result.Status)
	if pod.Annotations[Annotation] == "" || sandbox == "" {
		return
	}
	w.pods.With(pod.UID, func(s *state) { s.grant = grant{sandbox, s.Has.Nodes, s.Has.Numbers} })
	w.wake.Notify()
}

// run looks at the devices until ctx ends.
func (w *watcher) run(ctx context.Context) error {
	var again <-chan time.Time // nil without pods to look at
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-again:
		}
		again = nil
		grants := map[types.UID]grant{}
		for uid, s := range w.pods.All() {
			again = time.After(period)
			if s.grant != (grant{}) {
				grants[uid] = s.grant
			}
			pod, isDesired := w.host.Desired(uid)
			if isDesired && (w.look(pod) != s.Seen || !s.due.IsZero() && !time.Now().Before(s.due)) {
				w.host.Sync.Recheck(uid)
			}
		}
		w.save(grants)
	}
}
