// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig"
)

// Options configure Updates. The zero value makes pods with the annotation transactional.
type Options struct {
	// Dir is the absolute path of the folder for records. Defaults to the folder updates in the
	// root folder of the node.
	Dir string
	// Default is the policy of pods without AnnotationPolicy whose restartPolicy is Always. All
	// other pods without the annotation are replaced. Defaults to Replace.
	Default Policy
	// Gate judges versions. Pods may have annotations with other times.
	Gate Gate
	// Boot identifies the boot of the machine. Defaults to the boot ID of Linux, and on other
	// systems to none: a boot then counts as a start of the agent.
	Boot string
}

// Updates makes the pods of sources change in transactions. See New.
type Updates struct {
	opts    Options
	host    *feature.Host          // set by Features
	watched *feature.Slot[watched] // set by Features

	mu struct {
		sync.Mutex
		keepers  []*keeper
		restored []*saved // of the earlier agent, until their keeper takes them
		store    *store   // nil before open, and after an error
		err      error    // of open
		pins     map[unitID][]string
		problems map[string]bool // paths of manifests that cannot be used
		calm     time.Time       // until then the source may not have submitted the corrected manifest
	}
}

// settle is how long a group must be unchanged before its next version is started.
const settle = 2 * time.Second

// calm is the time that a source has to submit the pod of a corrected manifest.
const calm = 5 * time.Second

// watched is a pod of the version that a unit runs.
type watched struct {
	unit   *managed
	health *PodHealth // guarded by Updates.mu
	hash   string
}

// bootFile has the boot ID of Linux.
const bootFile = "/proc/sys/kernel/random/boot_id"

// New returns Updates for a single node. Pass the results of Sources and Features to
// node.Options.Sources and node.Options.Features.
func New(o Options) (*Updates, error) {
	switch {
	case o.Dir != "" && !filepath.IsAbs(o.Dir):
		return nil, fmt.Errorf("updates: Options.Dir %q: want an absolute path", o.Dir)
	case o.Default == "":
		o.Default = Replace
	case o.Default != Replace && o.Default != Transactional:
		return nil, fmt.Errorf("updates: Options.Default %q: want %s or %s", o.Default, Replace, Transactional)
	}
	if o.Gate.Ready < 0 || o.Gate.Deadline < 0 || o.Gate.Restarts < 0 {
		return nil, errors.New("updates: Options.Gate must not be negative")
	}
	if o.Boot == "" {
		data, _ := os.ReadFile(bootFile)
		o.Boot = strings.TrimSpace(string(data))
	}
	u := &Updates{opts: o}
	u.mu.pins, u.mu.problems = map[unitID][]string{}, map[string]bool{}
	return u, nil
}

// Features returns the feature. It fits node.Options.Features.
func (u *Updates) Features(h *feature.Host) []feature.Feature {
	u.host, u.watched = h, feature.NewLastingSlot[watched](h.Table) // filled before the node knows the pods
	if u.opts.Dir == "" {
		u.opts.Dir = filepath.Join(h.Root, "updates")
	}
	return []feature.Feature{{Name: "updates", Open: u.open, Check: check, Published: u.published, Images: u.images}}
}

// sourceNames are the names of sources that can be part of a folder's name.
var sourceNames = regexp.MustCompile(`^[A-Za-z0-9.-]{1,60}$`)

// Sources returns the sources with transactional updates of their pods. The pods of an API server
// are left alone: another program decides about their versions. A source with a name that cannot
// be part of a file's name is left alone, too.
func (u *Updates) Sources(sources ...podconfig.Source) []podconfig.Source {
	var all []podconfig.Source
	for _, s := range sources {
		if s == nil || s.Name() == podconfig.SourceAPI || !sourceNames.MatchString(s.Name()) {
			all = append(all, s)
			continue
		}
		k := newKeeper(u, s)
		u.mu.Lock()
		u.mu.keepers = append(u.mu.keepers, k)
		u.mu.Unlock()
		all = append(all, k)
	}
	return all
}

// WrapSource implements node.SourceWrapper.
func (k *keeper) WrapSource(wrap func(podconfig.Source) podconfig.Source) { k.Source = wrap(k.Source) }

// Problem reports an error of the manifest at path, or with a nil error the end of the problem.
// During a problem, a unit is not removed before the source has listed it since the start of the
// agent: its manifest may be the faulty manifest.
func (u *Updates) Problem(path string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.mu.problems[path] = true
	} else if u.mu.problems[path] {
		delete(u.mu.problems, path)
		u.mu.calm = time.Now().Add(calm)
	}
	for _, k := range u.mu.keepers {
		k.all = true
		k.notice.Notify()
	}
}

// Poke makes the agent look for requests of Rollback.
func (u *Updates) Poke() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, k := range u.mu.keepers {
		k.requests = true
		k.notice.Notify()
	}
}

// open reads the records of the earlier agent.
func (u *Updates) open() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.store, u.mu.err = openStore(u.opts.Dir); u.mu.err != nil {
		return
	}
	restored, errs := u.mu.store.load()
	for _, err := range errs {
		u.host.Log.Warn("record of an update not used", zap.Error(err))
	}
	u.mu.restored = restored
	for _, r := range restored {
		u.pinLocked(r.Unit, r.Pinned(), r.versions)
	}
}

// takeRestored returns the units of a source from the earlier agent.
func (u *Updates) takeRestored(source string) (own []*saved, s *store, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.mu.restored {
		if r.Unit.Source == source {
			own = append(own, r)
		}
	}
	err = u.mu.err
	if u.mu.store == nil && err == nil {
		err = errors.New("the records are not open: pass Updates.Features as node.Options.Features, and call Run of the agent, not RunOnce")
	}
	return own, u.mu.store, err
}

// policy returns the policy of a pod.
func (u *Updates) policy(pod *v1.Pod) Policy {
	switch p := Policy(pod.Annotations[AnnotationPolicy]); {
	case p == Replace, p == Transactional:
		return p
	case pod.Spec.RestartPolicy == v1.RestartPolicyAlways || pod.Spec.RestartPolicy == "":
		return u.opts.Default
	}
	return Replace
}

// published receives the statuses of pods.
func (u *Updates) published(pod *v1.Pod, status v1.PodStatus) {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := u.watched.Get(pod.UID)
	if w.unit == nil || pod.Annotations[AnnotationVersion] != w.hash {
		return
	}
	*w.health = w.health.Observe(&status, time.Now())
	w.unit.markLocked()
}

// images returns the images that garbage collection must keep.
func (u *Updates) images() (all []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, names := range u.mu.pins {
		all = append(all, names...)
	}
	return all
}

// pinLocked replaces the pinned images of a unit by those of the versions with the hashes.
func (u *Updates) pinLocked(id unitID, hashes []string, all versions) {
	var names []string
	for _, hash := range hashes {
		for _, pod := range all.of(hash) {
			for _, image := range imagesOf(pod) {
				names = append(names, image.name)
			}
		}
	}
	if len(names) == 0 {
		delete(u.mu.pins, id)
		return
	}
	u.mu.pins[id] = names
}

// keeper is a podconfig.Source with transactional updates of the pods of another Source.
type keeper struct {
	podconfig.Source
	updates *Updates
	changes chan submitted
	ended   chan struct{}
	notice  signal.Signal

	// Guarded by updates.mu.
	dirty    map[unitID]bool
	all      bool // all units are dirty
	requests bool // look for requests

	keeperState
}

// submitted is a change of the source, and the place for the error of Submit.
type submitted struct {
	podconfig.Change
	done chan error
}
