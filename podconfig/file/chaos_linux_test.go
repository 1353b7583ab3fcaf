// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// chaosSeed repeats a failed chaos test: go test ./podconfig/file -run Chaos -chaos-seed 123
var chaosSeed = flag.Uint64("chaos-seed", 0, "seed of the chaos test; 0 takes a new one")

// TestChaosOfEditorsHabits edits manifests in the ways of people and programs, on a disk that is
// sometimes full, with pauses between the steps of an edit and with lost hints. It compares the
// merged pods with an oracle (chaos_oracle_linux_test.go):
//   - files unchanged for longer than the debounce are merged in the end;
//   - the pod of a file that always exists is never removed in between, whatever the content;
//   - no content is merged that was never in a file.
func TestChaosOfEditorsHabits(t *testing.T) {
	steps, shards := casetest.Rounds(10_000), 2
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for shard := range shards {
		t.Run(fmt.Sprint("shard=", shard), func(t *testing.T) {
			t.Parallel()
			base := chaosDisk(t)
			bubble(t, func(t *testing.T) {
				c := newChaos(t, base, rand.New(rand.NewPCG(seed, uint64(shard))))
				for i := range steps / shards {
					if !c.step() {
						require.Fail(t, "chaos", "-chaos-seed %d, shard %d, step %d: %s\nthe last steps:\n%s",
							seed, shard, i, c.oracle.violation(), strings.Join(c.trace, "\n"))
					}
				}
				require.NoError(t, c.stop())
				t.Logf("%d steps, %d settled states, %d changes told", steps/shards, c.settled, c.told)
			})
		})
	}
}

// chaosDisk returns a folder on a disk of its own that can be filled. Without the right to mount,
// it returns a folder on any disk.
func chaosDisk(t *testing.T) string {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Log("no disk is ever full, as mounting a small one needs root:", err)
		return dir
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "small"), nil, 0o600)) // a full disk may be made here
	return dir
}

// chaos is a running source, and an editor of its folder.
type chaos struct {
	*testing.T
	*rand.Rand
	base, dir string
	store     *podconfig.Store
	oracle    *oracle
	stop      func() error
	trace     []string // of the last steps
	serial    int      // of the images
	small     bool     // the disk can be filled
	settled   int
	told      int

	mu    sync.Mutex
	hints chan struct{} // nil without a watch
	end   chan struct{}
}

const (
	chaosDebounce = 100 * time.Millisecond
	chaosPeriod   = 2 * time.Second
)

func newChaos(t *testing.T, base string, r *rand.Rand) *chaos {
	c := &chaos{T: t, Rand: r, base: base, dir: filepath.Join(base, "pods"), oracle: newOracle(filepath.Join(base, "pods"))}
	_, err := os.Stat(filepath.Join(base, "small"))
	c.small = err == nil
	require.NoError(t, os.Mkdir(c.dir, 0o755))
	c.store, err = podconfig.NewStore(podconfig.StoreOptions{})
	require.NoError(t, err)
	source, err := file.New(file.Config{
		Path: c.dir, Decoder: chaosDecoder, Hinter: file.HinterFunc(c.watch), Period: chaosPeriod, Debounce: chaosDebounce,
		Problem: func(string, error) {},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, c) }()
	c.stop = func() error {
		cancel()
		return <-done
	}
	synctest.Wait()
	return c
}

var chaosDecoder = &manifest.Decoder{NodeName: "n", Strict: true}

// Submit merges a change of the source, and checks it with the oracle.
func (c *chaos) Submit(ctx context.Context, change podconfig.Change) error {
	c.told++
	if _, err := c.store.Merge(ctx, podconfig.SourceFile, change); err != nil {
		return err
	}
	if change.Kind() == podconfig.ChangeRemove || change.Kind() == podconfig.ChangeSnapshot || len(change.Pods()) > 0 {
		c.oracle.hear(c.runs(), time.Now())
	}
	return nil
}

// runs returns the images of the merged pods by pod name.
func (c *chaos) runs() map[string]string {
	out := map[string]string{}
	for _, p := range c.store.Pods() {
		out[strings.TrimSuffix(p.Name, "-n")] = p.Spec.Containers[0].Image
	}
	return out
}

// watch is the Hinter.
func (c *chaos) watch(ctx context.Context, _ string) (<-chan struct{}, error) {
	hints, end := make(chan struct{}, 1), make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hints, c.end = hints, end
	go func() {
		select {
		case <-ctx.Done():
		case <-end:
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.hints == hints {
			c.hints = nil
		}
		close(hints)
	}()
	return hints, nil
}

// hint usually sends a hint to the source. Some hints end the watch, like the hint of a replaced
// folder.
func (c *chaos) hint() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.hints == nil || c.IntN(12) == 0:
	case c.IntN(60) == 0:
		close(c.end)
		c.hints = nil
	default:
		select {
		case c.hints <- struct{}{}:
		default:
		}
	}
}

// step makes an edit and reports whether no fault was found. Sometimes it waits until all files are
// at rest, and compares.
func (c *chaos) step() bool {
	h := habits[c.IntN(len(habits))]
	name := string(rune('a' + c.IntN(5)))
	if len(c.trace) == 30 {
		c.trace = c.trace[1:]
	}
	c.trace = append(c.trace, h.name+" "+name)
	h.do(c, name)
	switch c.IntN(8) {
	case 0, 1:
		c.note()
		c.sleep(chaosPeriod + 20*chaosDebounce)
		c.settled++
		c.oracle.settle(c.runs())
	default:
		c.pause(3 * chaosDebounce)
	}
	return c.oracle.violation() == ""
}

// note lets the oracle look at the files, and sends a hint.
func (c *chaos) note() {
	c.oracle.look(time.Now())
	c.hint()
}

// pause notes and waits for a random time up to most, often zero.
func (c *chaos) pause(most time.Duration) {
	c.note()
	if c.IntN(3) > 0 {
		c.sleep(time.Duration(c.Int64N(int64(most))))
	}
}

func (c *chaos) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	c.oracle.look(time.Now())
}
