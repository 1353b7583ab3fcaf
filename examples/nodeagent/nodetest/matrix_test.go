// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/internal/casetest"
)

var (
	schedules = flag.Int("schedules", 0, "how many random schedules to run; 0: 200 (20 under the race detector), or 100,000 with KEELSON_SOAK=1")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first")
	assembly  = flag.String("assembly", "", "reference or parts; default: each")
	peaceful  = flag.Bool("peaceful", false, "only the seeds of peaceful schedules")
	shrink    = flag.Bool("shrink", true, "make the scripts of failing seeds small")
	journals  = flag.String("journals", "", "a new folder for the journals, a file per schedule")
)

// TestMatrix runs random schedules and judges them: see nodetest.Schedule and
// nodetest.Check. A seed that fails is told as a script for testdata.
func TestMatrix(t *testing.T) {
	for _, agent := range []struct {
		name     string
		assemble nodetest.Assemble
		lacks    []nodetest.Feature
	}{
		{"reference", nodetest.ReferenceAgent, nil},
		{"parts", newPartsAgent, []nodetest.Feature{nodetest.FeatureDeadlines, nodetest.FeatureResizes, nodetest.FeatureAdmission, nodetest.FeatureMirrors, nodetest.FeatureImages}},
	} {
		if *assembly == "" || *assembly == agent.name {
			t.Run(agent.name, func(t *testing.T) { testMatrix(t, agent.assemble, agent.lacks...) })
		}
	}
}

func testMatrix(t *testing.T, assemble nodetest.Assemble, lacks ...nodetest.Feature) {
	n := uint64(*schedules)
	switch {
	case n > 0:
	case os.Getenv("KEELSON_SOAK") == "1":
		n = 100_000
	default:
		n = casetest.Rounds[uint64](200)
	}
	// A schedule's garbage is small, and most of the time would go into collecting it.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var next, done, failed atomic.Uint64
	began := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for range goruntime.GOMAXPROCS(0) {
			t.Run(fmt.Sprintf("%d to %d", *firstSeed, *firstSeed+n-1), func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < n && !(failFast() && failed.Load() > 0); i = next.Add(1) - 1 {
					seed := *firstSeed + i
					if *peaceful {
						seed = 3 * seed
					}
					script := nodetest.Schedule(seed, lacks...)
					r := play(t, assemble, script)
					keep(t, script.Name, r.Journal)
					if r.Err != nil {
						failed.Add(1)
						report(t, assemble, seed, script, r)
					}
					if count := done.Add(1); count%1000 == 0 {
						fmt.Fprintf(os.Stderr, "%d of %d schedules in %v, to seed %d: %d failed\n", count, n, time.Since(began).Round(time.Second), seed, failed.Load())
					}
				}
			})
		}
	})
}

// keep writes the journal of a schedule to the folder of -journals.
func keep(t *testing.T, name, journal string) {
	if *journals == "" {
		return
	}
	dir := filepath.Join(*journals, strings.Split(t.Name(), "/")[1]) // reference or parts
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(journal), 0o644); err != nil {
		t.Fatal(err)
	}
}

// failFast reports whether the first seed that fails ends the run, by go test -failfast.
func failFast() bool { return flag.Lookup("test.failfast").Value.String() == "true" }

// play is Play, with a deadlock of the bubble as an error.
func play(t *testing.T, assemble nodetest.Assemble, script *nodetest.Script) (r nodetest.Played) {
	defer func() {
		if p := recover(); p != nil {
			text := fmt.Sprint(p)
			if !strings.Contains(text, "deadlock") {
				panic(p)
			}
			r.Err = fmt.Errorf("%s: %s", script.Name, text)
		}
	}()
	return nodetest.PlayOn(t, assemble, script)
}

func report(t *testing.T, assemble nodetest.Assemble, seed uint64, script *nodetest.Script, r nodetest.Played) {
	fmt.Fprintf(os.Stderr, "seed %d fails: %.300v\n", seed, r.Err)
	if !*shrink {
		t.Errorf("seed %d: %v", seed, r.Err)
		return
	}
	want := kind(r.Err)
	small := nodetest.Shrink(script, func(s *nodetest.Script) bool {
		for range 3 {
			if r := play(t, assemble, s); r.Err != nil && kind(r.Err) == want {
				return true
			}
		}
		return false
	})
	again := play(t, assemble, small)
	t.Errorf("seed %d: %v\nsmallest script:\n%s\nwhich fails with: %v\nand the journal:\n%s", seed, r.Err, small, again.Err, again.Journal)
}

var particular = regexp.MustCompile(`[^ ]*[0-9/][^ ]*`)

// kind returns the common part of failures with the same cause, judged by their texts.
func kind(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if _, rest, ok := strings.Cut(text, "calm: "); ok {
		text = rest
	}
	return particular.ReplaceAllString(text, "…")
}
