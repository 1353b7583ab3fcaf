// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
)

var (
	schedules = flag.Int("schedules", 0, "how many random schedules to run; 0: 100,000 with KEELSON_SOAK=1, else none")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first")
	shrink    = flag.Bool("shrink", true, "make the scripts of failing seeds small")
)

// TestMatrix runs random schedules and judges them: see nodetest.Schedule and
// nodetest.Check. A seed that fails is told as a script for testdata.
func TestMatrix(t *testing.T) {
	soak := os.Getenv("KEELSON_SOAK") == "1"
	n := *schedules
	switch {
	case n > 0:
	case soak:
		n = 100_000
	default:
		t.Skip("the fault matrix is not green yet: KEELSON_SOAK=1 or -schedules=N runs it")
	}
	var done atomic.Int64
	began := time.Now()
	const parts = 2
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := *firstSeed + part; seed < *firstSeed+uint64(n); seed += parts {
				script := nodetest.Schedule(seed)
				if r := play(t, script); r.Err != nil {
					report(t, seed, script, r)
				}
				if count := done.Add(1); soak && count%1000 == 0 {
					fmt.Fprintf(os.Stderr, "%d of %d schedules in %v\n", count, n, time.Since(began).Round(time.Second))
				}
			}
		})
	}
}

// play is Play, with a deadlock of the bubble as an error.
func play(t *testing.T, script *nodetest.Script) (r nodetest.Played) {
	defer func() {
		if p := recover(); p != nil {
			text := fmt.Sprint(p)
			if !strings.Contains(text, "deadlock") {
				panic(p)
			}
			r.Err = fmt.Errorf("%s: %s", script.Name, text)
		}
	}()
	return nodetest.Play(t, script)
}

func report(t *testing.T, seed uint64, script *nodetest.Script, r nodetest.Played) {
	fmt.Fprintf(os.Stderr, "seed %d fails: %.300v\n", seed, r.Err)
	if !*shrink {
		t.Errorf("seed %d: %v", seed, r.Err)
		return
	}
	want := kind(r.Err)
	small := nodetest.Shrink(script, func(s *nodetest.Script) bool {
		for range 3 {
			if r := play(t, s); r.Err != nil && kind(r.Err) == want {
				return true
			}
		}
		return false
	})
	again := play(t, small)
	t.Errorf("seed %d: %v\nsmallest script:\n%s\nwhich fails with: %v\nand the journal:\n%s", seed, r.Err, small, again.Err, again.Journal)
}

var particular = regexp.MustCompile(`[^ ]*[0-9/][^ ]*`)

// kind is what a failure has in common with others of its cause, as far as its text
// tells.
func kind(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if _, rest, ok := strings.Cut(text, "calm: "); ok {
		text = rest
	}
	return particular.ReplaceAllString(text, "…")
}
