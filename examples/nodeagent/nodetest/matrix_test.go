// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
)

var (
	schedules = flag.Int("schedules", 0, "how many random schedules to run")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first")
	shrink    = flag.Bool("shrink", true, "make the scripts of failing seeds small")
)

func TestMatrix(t *testing.T) {
	const parts = 2
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := *firstSeed + part; seed < *firstSeed+uint64(*schedules); seed += parts {
				script := nodetest.Schedule(seed)
				if r := play(t, script); r.Err != nil {
					fmt.Fprintf(os.Stderr, "seed %d fails: %.300v\n", seed, r.Err)
					report(t, seed, script, r)
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

func TestPlayOne(t *testing.T) {
	file := os.Getenv("NODETEST_SCRIPT")
	if file == "" {
		t.Skip("for development: NODETEST_SCRIPT is not set")
	}
	nodetest.RunScript(t, file)
}
