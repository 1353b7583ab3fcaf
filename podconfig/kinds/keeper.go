// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig"
)

// objectName identifies an object of a source. For a carrier, the name has the kind.
type objectName struct{ namespace, name string }

// keeper is a source with the kinds of another source.
type keeper struct {
	podconfig.Source
	controller *Controller
	notice     signal.Signal

	// The holder of turn owns these fields.
	turn     chan struct{}
	out      podconfig.Sink
	listed   bool // the source has submitted a snapshot
	carriers map[objectName]*v1.Pod
	records  *records
	sent     map[types.UID]bool // pods of Jobs that the node has
	again    time.Time

	mu struct {
		sync.Mutex
		set Set // of the carriers
	}
}

// WrapSource implements node.SourceWrapper of the reference program.
func (k *keeper) WrapSource(wrap func(podconfig.Source) podconfig.Source) { k.Source = wrap(k.Source) }

// saveRetry is the time until records are stored again after an error, and until the clock is looked at
// again.
const saveRetry = 10 * time.Second

// clockCheck is the longest wait for the time of a CronJob, because the clock may be set meanwhile.
const clockCheck = time.Minute

// Run implements podconfig.Source.
func (k *keeper) Run(ctx context.Context, out podconfig.Sink) error {
	k.out = out
	var err error
	if k.records, err = openRecords(k.controller.Dir, k.Name()); err != nil {
		return fmt.Errorf("kinds: %w", err)
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- k.Source.Run(work, sink{k}) }()
	next := time.After(0)
	for {
		select {
		case err := <-ended:
			return err
		case <-k.notice:
		case <-next:
		}
		if err := k.step(work, podconfig.Change{}); err != nil && work.Err() == nil {
			stop()
			<-ended
			return err
		}
		next = k.alarm()
	}
}

// alarm returns a channel that receives at the time of the next step, nil without one.
func (k *keeper) alarm() <-chan time.Time {
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	if k.again.IsZero() {
		return nil
	}
	return time.After(time.Until(k.again))
}

// sink receives the changes of the inner source.
type sink struct{ *keeper }

// Submit implements podconfig.Sink.
func (s sink) Submit(ctx context.Context, c podconfig.Change) error {
	err := s.step(ctx, c)
	s.notice.Notify() // sets the timer
	return err
}

// step takes over a change of the source, decides about the Jobs, and submits the result.
func (k *keeper) step(ctx context.Context, c podconfig.Change) error {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	pods, gone, removeObjects := k.takeOver(c)
	if c.Kind() == podconfig.ChangeSnapshot {
		k.listed = true
	}
	var jobPods []*v1.Pod
	if k.listed {
		jobPods = k.decide()
	}
	wanted := make(map[types.UID]bool, len(jobPods))
	for _, pod := range jobPods {
		wanted[pod.UID] = true
	}
	for uid := range k.sent {
		if !wanted[uid] {
			gone = append(gone, uid)
		}
	}
	var changes []podconfig.Change
	if c.Kind() == podconfig.ChangeSnapshot {
		changes = append(changes, podconfig.Snapshot(append(pods, jobPods...)...))
	} else {
		for _, pod := range jobPods {
			if !k.sent[pod.UID] {
				pods = append(pods, pod)
			}
		}
		if len(gone) > 0 {
			changes = append(changes, podconfig.Remove(gone...))
		}
		if len(pods) > 0 {
			changes = append(changes, podconfig.Upsert(pods...))
		}
	}
	for _, change := range changes {
		if c.IsGiven() {
			change = change.Given()
		}
		if err := k.out.Submit(ctx, change); err != nil {
			return err
		}
	}
	k.sent = wanted
	removeObjects() // after the pods that use them
	return nil
}

// takeOver keeps the carriers of a change, and returns the rest of the change. removeObjects
// removes the objects that the change removes.
func (k *keeper) takeOver(c podconfig.Change) (pods []*v1.Pod, gone []types.UID, removeObjects func()) {
	removeObjects = func() {}
	if c.Kind() == 0 {
		return nil, nil, removeObjects
	}
	before := maps.Clone(k.carriers)
	if c.Kind() == podconfig.ChangeSnapshot {
		clear(k.carriers)
	}
	for _, uid := range c.UIDs() {
		carried := false
		for name, pod := range k.carriers {
			if pod.UID == uid {
				delete(k.carriers, name)
				carried = true
			}
		}
		if !carried {
			gone = append(gone, uid)
		}
	}
	for _, pod := range c.Pods() {
		if isCarrier(pod) {
			k.carriers[objectName{pod.Namespace, pod.Name}] = pod
		} else {
			pods = append(pods, pod)
		}
	}
	sameUID := func(a, b *v1.Pod) bool { return a.UID == b.UID }
	if !maps.EqualFunc(before, k.carriers, sameUID) || c.Kind() == podconfig.ChangeSnapshot {
		removeObjects = k.unpack()
	}
	return pods, gone, removeObjects
}

// unpack adds the objects of the carriers, and returns the function that removes the others.
func (k *keeper) unpack() (removeOthers func()) {
	var set Set
	for _, name := range slices.SortedFunc(maps.Keys(k.carriers), func(a, b objectName) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	}) {
		if err := set.uncarry(k.carriers[name]); err != nil {
			k.controller.Logger.Error("object not used", zap.String("namespace", name.namespace), zap.Error(err))
		}
	}
	k.mu.Lock()
	old := k.mu.set
	k.mu.set = set
	k.mu.set.Claims = append(slices.Clip(set.Claims), old.Claims...)
	k.mu.Unlock()
	deleteOthers := k.tellObjects(&old, &set)
	return func() {
		k.mu.Lock()
		k.mu.set.Claims = set.Claims
		k.mu.Unlock()
		deleteOthers()
	}
}

// tellObjects passes new ConfigMaps and Secrets to Objects. The returned function deletes the
// objects that are not in set.
func (k *keeper) tellObjects(old, set *Set) (deleteOthers func()) {
	to := k.controller.Objects
	configMaps := tellNew(old.ConfigMaps, set.ConfigMaps, to.SetConfigMap)
	secrets := tellNew(old.Secrets, set.Secrets, to.SetSecret)
	return func() {
		for _, name := range configMaps {
			to.DeleteConfigMap(name.namespace, name.name)
		}
		for _, name := range secrets {
			to.DeleteSecret(name.namespace, name.name)
		}
	}
}

// tellNew calls tell for the new and changed objects, and returns the names of the old objects that are
// not in now.
func tellNew[T metav1.Object](old, now []T, tell func(T)) (gone []objectName) {
	nameOf := func(object T) objectName { return objectName{object.GetNamespace(), object.GetName()} }
	before := map[objectName]T{}
	for _, object := range old {
		before[nameOf(object)] = object
	}
	for _, object := range now {
		name := nameOf(object)
		if had, ok := before[name]; !ok || !reflect.DeepEqual(had, object) {
			tell(object)
		}
		delete(before, name)
	}
	return slices.Collect(maps.Keys(before))
}

func (k *keeper) claim(namespace, name string) *v1.PersistentVolumeClaim {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.mu.set.Claims {
		if c.Namespace == namespace && c.Name == name {
			return c
		}
	}
	return nil
}

// services returns the Services of a namespace, or of all for "".
func (k *keeper) services(namespace string) (all []*v1.Service) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.mu.set.Services {
		if namespace == "" || s.Namespace == namespace {
			all = append(all, s)
		}
	}
	return all
}
