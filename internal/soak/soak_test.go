// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	length     = flag.Duration("soak.for", 10*time.Minute, "how long TestSoak goes on")
	seed       = flag.Uint64("soak.seed", 0, "what decides what happens; 0 = another one each time")
	podCount   = flag.Int("soak.pods", 10, "how many manifests there are at most")
	keep       = flag.Bool("soak.keep", false, "keep the folder with manifests, logs and journal")
	agentPath  = flag.String("soak.agent", "", "the node agent; built from the sources beside this by default")
	agentBuild = flag.String("soak.build", "", "more flags of go build for the agent, such as -race")
)

// TestSoak is the long run.
func TestSoak(t *testing.T) {
	if os.Getenv("KEELSON_SOAK") != "1" {
		t.Skip("takes ten minutes: runs with KEELSON_SOAK=1, as in make soak-containerd")
	}
	soak(t, *length, 40*time.Second, *podCount)
}

// TestSmoke is a short run.
func TestSmoke(t *testing.T) {
	if os.Getenv("KEELSON_E2E") != "1" {
		t.Skip("takes a minute: runs with KEELSON_E2E=1, as in make e2e")
	}
	soak(t, 20*time.Second, 20*time.Second, 6)
}

// soak goes on for so long, in rounds of faults with a pause after each in which
// everything has to come right.
func soak(t *testing.T, length, round time.Duration, pods int) {
	seed := *seed
	if seed == 0 {
		seed = rand.Uint64() % 1_000_000
	}
	t.Logf("seed %d (again: -soak.seed %d)", seed, seed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("this was seed %d", seed)
		}
	})
	w := newWorld(t)
	t.Logf("containerd %s", w.engine.c.Version)
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { w.observe(ctx) })
	stop := sync.OnceFunc(func() { cancel(); watching.Wait() })
	defer stop()

	d := newDriver(w, seed, pods)
	defer d.faults.Wait()
	began := time.Now()
	for n := 1; time.Since(began) < length; n++ {
		w.journal.say("ROUND %d", n)
		for until := time.Now().Add(round); time.Now().Before(until); {
			d.step()
			w.check()
		}
		w.journal.say("PAUSE %d", n)
		d.calmDown()
		took := w.settle(ctx, "everything is as wanted", w.ledger.unsettled)
		t.Logf("%3.0fs: round %d came right after %s", time.Since(began).Seconds(), n, took.Round(100*time.Millisecond))
	}
	d.removeAll()
	took := w.settle(ctx, "nothing is left", func(v *view) []string { return append(w.ledger.unsettled(v), w.leftovers(v)...) })
	t.Logf("nothing is left after %s", took.Round(100*time.Millisecond))
	w.agent.stop(syscall.SIGTERM)
	stop()
	w.check()
	w.endCgroups()
	w.report(d)
}

// check ends the test if something is wrong.
func (w *world) check() {
	w.Helper()
	if broken := w.ledger.broken(); len(broken) > 0 {
		w.Fatalf("%d violations; the first: %s", len(broken), broken[0])
	}
}

// patience is the time to reach the settled state, in addition to crash loop back-offs.
const patience = 60 * time.Second

// settle waits until nothing is wrong any more.
func (w *world) settle(ctx context.Context, what string, look func(*view) []string) time.Duration {
	w.Helper()
	began := time.Now()
	until := began.Add(patience)
	for good := 0; ; time.Sleep(200 * time.Millisecond) {
		w.check()
		v, err := w.view(ctx)
		wrong := []string{fmt.Sprint(err)}
		if err == nil {
			wrong = look(v)
			if at := nextTry(v.pods).Add(patience / 2); at.After(until) && at.Before(began.Add(3*patience)) {
				until = at
			}
		}
		if len(wrong) > 0 {
			good = 0
		} else if good++; good == 2 {
			return time.Since(began)
		}
		if time.Now().After(until) {
			for _, text := range wrong {
				w.wrong("not within %s: %s: %s", time.Since(began).Round(time.Second), what, text)
			}
			w.check()
		}
	}
}

// tell prints the information needed to understand a failure.
func (w *world) tell() {
	broken := w.ledger.broken()
	var about []string
	for _, name := range w.ledger.names() {
		if slices.ContainsFunc(broken, func(v string) bool { return strings.Contains(v, name) }) {
			about = append(about, " "+name+"/", " "+name+":")
		}
	}
	w.Logf("violations:\n  %s", strings.Join(broken, "\n  "))
	w.Logf("the journal's end, and what was of these pods:\n%s", w.journal.tail(400, about))
	log, err := os.ReadFile(w.agent.log)
	if err != nil {
		w.Log(err)
	}
	w.Logf("the end of the agent's log:\n%s", log[max(0, len(log)-30_000):])
	ids := regexp.MustCompile("[0-9a-f]{12,}").FindAllString(strings.Join(broken, " "), -1)
	w.Logf("what containerd's log has of %v:\n%s", ids, w.engine.about(ids, 60))
}

// report prints the counts of all changes.
func (w *world) report(d *driver) {
	w.ledger.mu.Lock()
	generations, bounced := 0, 0
	for _, b := range w.ledger.pods {
		generations += len(b.generations)
		for _, g := range b.generations {
			if g.bounced {
				bounced++
			}
		}
	}
	instances, exceptions := len(w.ledger.instances), maps.Clone(w.ledger.exceptions)
	w.ledger.mu.Unlock()
	w.Logf("%d pods, %d of them removed and back; %d containers and sandboxes, %d instances", generations, bounced, len(w.idsSeen()), instances)
	for _, name := range slices.Sorted(maps.Keys(d.counts)) {
		w.Logf("%5d × %s", d.counts[name], name)
	}
	silent, starts := w.ledger.silent()
	w.Logf("%d restarts of instances that were killed before they said anything, of %d starts", silent, starts)
	for _, why := range slices.Sorted(maps.Keys(exceptions)) {
		w.Logf("exception, %d times: %s", exceptions[why], why)
	}
}
