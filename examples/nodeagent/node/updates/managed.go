// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
)

// updateProblem is the message of a problem in the log.
const updateProblem = "update problem"

// saveRetry is the time until a record is stored again after an error.
const saveRetry = 10 * time.Second

// managed is a unit with the parts that carry out its decisions. It belongs to the goroutine of the
// keeper, except for the health of the members and stage.
type managed struct {
	unit
	id     unitID
	keeper *keeper

	pods     []*v1.Pod // as the source lists them, sorted by name
	dirty    bool      // pods has changed
	changed  time.Time // the last change of pods
	seen     bool      // the source has listed the unit since the start
	desired  string    // the hash of pods
	versions versions

	runs      string // the version that the node was told to run
	members   []member
	again     time.Time
	pick      string
	cancel    context.CancelFunc // of the staging
	forgotten bool               // the folder is removed at the end of the turn
	newer     bool               // the record is that of a newer agent
	trouble   string             // the last error of save

	stage Stage // guarded by keeper.updates.mu
}

// member is a pod that the node was told to run.
type member struct {
	name   types.NamespacedName
	uid    types.UID
	health PodHealth // guarded by keeper.updates.mu
}

// unit returns the unit of id, and creates a missing unit.
func (k *keeper) unit(id unitID) *managed {
	m := k.units[id]
	if m == nil {
		m = &managed{id: id, keeper: k}
		k.units[id] = m
	}
	return m
}

// restore continues a unit of the earlier agent.
func (k *keeper) restore(s *saved) {
	m := k.unit(s.Unit)
	m.record, m.versions, m.newer = s.Record, s.versions, s.newer
	if s.lost == nil {
		m.stored = s.Record.clone()
	} else {
		m.emit(Action{Reason: EventRecordLost, Warning: true, Message: fmt.Sprintf(
			"the record of the update was lost, version %s has to pass its gate again: %v", s.Next, s.lost)})
	}
	m.dirty, m.pick = true, k.store.request(s.Unit)
}

// add adds a pod that the source lists. The unit has no pod of the name.
func (m *managed) add(name types.NamespacedName, pod *v1.Pod) {
	at, _ := m.find(name)
	m.pods, m.dirty, m.seen, m.changed = slices.Insert(m.pods, at, pod), true, true, time.Now()
}

// remove removes a pod, and reports whether the unit had it.
func (m *managed) remove(name types.NamespacedName) bool {
	at, found := m.find(name)
	if found {
		m.pods, m.dirty, m.changed = slices.Delete(m.pods, at, at+1), true, time.Now()
	}
	return found
}

// find returns the place of a name in pods.
func (m *managed) find(name types.NamespacedName) (at int, found bool) {
	return slices.BinarySearchFunc(m.pods, name, func(p *v1.Pod, name types.NamespacedName) int { return compareNames(podName(p), name) })
}

// list computes the version that the source lists. A version that is known keeps its pods with
// their UIDs.
func (m *managed) list() {
	m.dirty, m.desired = false, ""
	if len(m.pods) == 0 {
		return
	}
	hash, err := hashOf(m.pods)
	if err != nil {
		m.keeper.updates.host.Log.Error("version of a pod has no hash", zap.Stringer("pod", m.id), zap.Error(err))
		return
	}
	m.desired = hash
	if m.versions.of(hash) == nil {
		m.versions = append(m.versions, version{hash, slices.Clone(m.pods)})
	}
}

// markLocked makes the keeper decide about the unit.
func (m *managed) markLocked() {
	m.keeper.dirty[m.id] = true
	m.keeper.notice.Notify()
}

// prepare reports whether there is something to decide about the unit.
func (m *managed) prepare(now time.Time) bool {
	if m.waitsForList(now) {
		m.act(Action{Kind: Wait, At: m.keeper.patient})
		return false
	}
	if m.newer {
		m.switchTo(m.record.Runs())
		m.complain(errors.New("the record is that of a newer agent: version " + m.record.Runs() + " runs, and changes wait for that agent"))
		return false
	}
	if m.pick != "" && m.versions.of(m.pick) == nil {
		m.pick = ""
		m.complain(m.keeper.store.answer(m.id))
	}
	return true
}

// conclude finishes a turn. before is the Reason of the record before the turn, and err is the
// error of the turn.
func (m *managed) conclude(before string, err error, now time.Time) {
	if err != nil {
		m.again = now.Add(saveRetry)
	}
	if m.pick != "" && err == nil && m.record.Pick == m.pick {
		m.pick = ""
		err = m.keeper.store.answer(m.id)
	}
	m.complain(err)
	if before != "" && m.record.Reason == "" {
		m.keeper.updates.host.Log.Info("update problem is over", zap.Stringer("pod", m.id), failurelog.Ends(updateProblem))
	}
	u := m.keeper.updates
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pinLocked(m.id, m.record.Pinned(), m.versions)
	if !m.seen && u.mu.calm.After(now) {
		m.act(Action{Kind: Wait, At: u.mu.calm})
	}
}

// waitsForList reports whether the source may still list other pods at the start of the agent. An
// update in Proving or RollingBack does not wait, because its version may boot the machine again.
func (m *managed) waitsForList(now time.Time) bool {
	if m.keeper.listed || !now.Before(m.keeper.patient) {
		return false
	}
	r := &m.record
	return r.Good == "" || r.Phase != Proving && r.Phase != RollingBack
}

// complain logs an error once.
func (m *managed) complain(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != m.trouble && text != "" {
		m.keeper.updates.host.Log.Warn(updateProblem, zap.Stringer("pod", m.id), zap.Error(err))
	}
	m.trouble = text
}

// facts implements world.
func (m *managed) facts(r *Record) Facts {
	u, now := m.keeper.updates, time.Now()
	gate := gateOf(m.versions.of(r.Runs()), u.opts.Gate)
	u.mu.Lock()
	defer u.mu.Unlock()
	f := Facts{
		Boot: u.opts.Boot, Desired: m.desired, Pick: m.pick, Stage: m.stage, Deadline: gate.Deadline,
		Listed: m.keeper.listed && (m.seen || len(u.mu.problems) == 0 && !now.Before(u.mu.calm)),
		Hold:   isHeld(m.pods),
	}
	if m.id.Group {
		f.NotBefore = m.changed.Add(settle)
	}
	if hash := r.Runs(); hash != "" && hash == m.runs {
		pods := make(map[string]PodHealth, len(m.members))
		for i := range m.members {
			pods[m.members[i].name.String()] = m.members[i].health
		}
		f.Health = gate.JudgeAll(pods, now)
		f.Health.Hash = hash
	}
	return f
}

// save implements world.
func (m *managed) save(r *Record) error {
	if r.Phase == Empty && r.Runs() == "" {
		return nil // Forget follows
	}
	u := m.keeper.updates
	u.mu.Lock()
	u.pinLocked(m.id, slices.Concat(m.record.Pinned(), r.Pinned()), m.versions)
	u.mu.Unlock()
	if err := m.keeper.store.save(m.id, r, m.versions); err != nil {
		return err
	}
	known := r.Known()
	m.versions = slices.DeleteFunc(m.versions, func(v version) bool {
		return !slices.Contains(known, v.hash) && v.hash != m.desired && !slices.Contains(m.record.Pinned(), v.hash)
	})
	return nil
}

// act implements world.
func (m *managed) act(a Action) {
	switch a.Kind {
	case Run:
		m.switchTo(a.Hash)
	case StartStaging:
		m.startStaging(a.Hash)
	case StopStaging:
		m.stopStaging()
	case Emit:
		m.emit(a)
	case Wait:
		if m.again.IsZero() || a.At.Before(m.again) {
			m.again = a.At
		}
	case Forget:
		if m.forgotten = len(m.pods) == 0; !m.forgotten {
			m.complain(m.keeper.store.remove(m.id))
		}
	}
}

// switchTo has the node run the pods of a version.
func (m *managed) switchTo(hash string) {
	pods := m.versions.of(hash)
	if hash == m.runs || hash != "" && pods == nil {
		return
	}
	k, u := m.keeper, m.keeper.updates
	u.mu.Lock()
	defer u.mu.Unlock()
	before, former := map[types.NamespacedName]*v1.Pod{}, m.members
	for _, old := range former {
		if k.out[old.name].unit == m {
			before[old.name] = k.out[old.name].pod
			delete(k.out, old.name)
			k.changed[old.name] = true
		}
		if u.watched.Get(old.uid).unit == m {
			u.watched.Drop(old.uid)
		}
	}
	m.runs, m.members = hash, make([]member, len(pods))
	for i, pod := range pods {
		name := podName(pod)
		k.out[name], k.changed[name] = output{pod, m, hash, m.record.Good != ""}, true
		m.members[i] = member{name: name, uid: pod.UID}
		if old := before[name]; old != nil && old.UID == pod.UID && old.Annotations[podconfig.AnnotationHash] == pod.Annotations[podconfig.AnnotationHash] {
			at := slices.IndexFunc(former, func(o member) bool { return o.name == name })
			m.members[i].health = former[at].health.again(time.Now()) // the pod runs on, and may have no further status
		}
		u.watched.Set(pod.UID, watched{m, &m.members[i].health, hash})
	}
}

// emit records an event about a pod of the unit.
func (m *managed) emit(a Action) {
	log := m.keeper.updates.host.Log
	if a.Warning {
		log.Warn(updateProblem, zap.Stringer("pod", m.id), zap.String("reason", a.Reason), zap.String("message", a.Message))
	} else {
		log.Info("update", zap.Stringer("pod", m.id), zap.String("reason", a.Reason), zap.String("message", a.Message))
	}
	kind := v1.EventTypeNormal
	if a.Warning {
		kind = v1.EventTypeWarning
	}
	for _, hash := range []string{m.record.Runs(), m.record.Next, m.desired} {
		if pods := m.versions.of(hash); len(pods) > 0 {
			m.keeper.updates.host.Event(pods[0], kind, a.Reason, a.Message)
			return
		}
	}
}

// startStaging begins to fetch the images of a version, unless it has begun before.
func (m *managed) startStaging(hash string) {
	u := m.keeper.updates
	u.mu.Lock()
	same := m.stage.Hash == hash
	u.mu.Unlock()
	if same {
		return
	}
	m.stopStaging()
	u.mu.Lock()
	m.stage = Stage{Hash: hash}
	u.mu.Unlock()
	ctx, cancel := context.WithCancel(m.keeper.work)
	m.cancel = cancel
	pods := m.versions.of(hash)
	m.keeper.staging.Go(func() {
		defer cancel()
		for attempt := 0; ctx.Err() == nil; attempt++ {
			s := Stage{Hash: hash}
			refused, err := u.fetch(ctx, pods)
			switch {
			case refused != "":
				s.Refused = refused
			case err != nil:
				s.Blocked = err.Error()
			default:
				s.Done = true
			}
			u.mu.Lock()
			if ctx.Err() == nil && m.stage.Hash == hash {
				m.stage = s
				m.markLocked()
			}
			u.mu.Unlock()
			if s.Blocked == "" || retry.Sleep(ctx, retry.Backoff(attempt, firstFetch, lastFetch, rand.Float64())) != nil {
				return
			}
		}
	})
}

// Pauses between two attempts to fetch images.
const (
	firstFetch = 10 * time.Second
	lastFetch  = 5 * time.Minute
)

// stopStaging ends a staging and forgets its result.
func (m *managed) stopStaging() {
	if m.cancel == nil {
		return
	}
	m.cancel()
	m.cancel = nil
	m.keeper.updates.mu.Lock()
	m.stage = Stage{}
	m.keeper.updates.mu.Unlock()
}

// fetch makes the images of the pods present. refused is the reason if the node can never run the
// pods.
func (u *Updates) fetch(ctx context.Context, pods []*v1.Pod) (refused string, err error) {
	_, hasImages := u.host.Runtime.(runtime.Images)
	for _, pod := range pods {
		if err := u.host.CheckPod(pod); err != nil {
			return err.Error(), nil
		}
		if !hasImages {
			continue
		}
		for _, image := range imagesOf(pod) {
			err := u.fetchImage(ctx, pod, image)
			switch {
			case errors.Is(err, runtime.ErrInvalidImageName):
				return fmt.Sprintf("image %q: %v", image.name, err), nil
			case err != nil:
				return "", fmt.Errorf("image %q: %w", image.name, err)
			}
		}
	}
	return "", nil
}

func (u *Updates) fetchImage(ctx context.Context, pod *v1.Pod, image image) error {
	release, err := u.host.HoldImages(ctx, image.name)
	if err != nil {
		return err
	}
	defer release()
	_, err = u.host.Manager.EnsureImage(ctx, runtime.ImageRequest{Pod: pod, Image: image.name, Policy: cmp.Or(*image.policy, v1.PullIfNotPresent)})
	return err
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func compareID(a, b unitID) int { return strings.Compare(a.folder(), b.folder()) }
