// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

const ms = time.Millisecond

func calls(r *running) int { n, _ := r.counts(); return n }
func ended(r *running) int { _, n := r.counts(); return n }

func TestRunTellsTheFirstSnapshotAtOnce(t *testing.T) {
	for _, manifests := range []int{0, 2} {
		bubble(t, func(t *testing.T) {
			f := newFixture(t)
			want := []string{}
			for i := range manifests {
				f.write(fmt.Sprint(i), pod(fmt.Sprintf("p%d", i), "i"))
				want = append(want, fmt.Sprintf("p%d=i", i))
			}
			r := run(f)
			assert.Equal(t, []snapshot{{0, want}}, r.take())
			r.wait(time.Hour)
			assert.Empty(t, r.take(), "nothing changed, nothing is said")
			require.NoError(t, r.stop())
			assert.Equal(t, 1, ended(r), "Run waits for the watch to end")
			assert.ErrorIs(t, r.source.Run(t.Context(), r.sink), file.ErrRunning)
		})
	}
}

func TestNewPodNeedNotWaitForTheDebounce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(newFixture(t))
		r.take()
		r.change(func() { r.write("a.yaml", pod("a", "i")) })
		r.wait(time.Hour)
		assert.Equal(t, []snapshot{{2 * ms, []string{"a=i"}}}, r.take())
		require.NoError(t, r.stop())
	})
}

func TestChangeWaitsForTheDebounce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("a.yaml", pod("a", "i"))
		r := run(f)
		r.take()
		for _, image := range []string{"j", "k", "l"} {
			r.change(func() { r.write("a.yaml", pod("a", image)) })
			r.wait(99 * ms)
			assert.Empty(t, r.take())
		}
		r.wait(ms)
		assert.Equal(t, []snapshot{{298 * ms, []string{"a=l"}}}, r.take())
		require.NoError(t, r.stop())
	})
}

func TestConstantStreamOfHintsDelaysAtMostTenDebounces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("a.yaml", pod("a", "i"))
		r := run(f)
		r.take()
		r.change(func() { r.write("a.yaml", pod("a", "j")) })
		for range 200 {
			r.wait(10 * ms)
			r.hint()
		}
		r.wait(time.Second)
		assert.Equal(t, []snapshot{{time.Second, []string{"a=j"}}}, r.take())
		require.NoError(t, r.stop())
	})
}

func TestRemovalIsNoticedSoon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("a.yaml", pod("a", "i"))
		r := run(f)
		r.take()
		r.change(func() { r.remove("a.yaml") })
		r.wait(time.Second)
		assert.Equal(t, []snapshot{{102 * ms, []string{}}}, r.take())
		require.NoError(t, r.stop())
	})
}

func TestPollingAloneFindsEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(newFixture(t), func(c *file.Config) { c.Hinter = nil })
		assert.Zero(t, calls(r))
		r.take()
		r.wait(time.Second)
		r.write("a.yaml", pod("a", "i"))
		r.wait(18 * time.Second)
		assert.Empty(t, r.take())
		r.wait(time.Second)
		assert.Equal(t, []snapshot{{20 * time.Second, []string{"a=i"}}}, r.take())
		r.remove("a.yaml")
		r.wait(30 * time.Second)
		assert.Equal(t, []snapshot{{40*time.Second + 100*ms, []string{}}}, r.take(), "missing twice")
		require.NoError(t, r.stop())
	})
}

func TestWatchIsArmedBeforeTheFirstScan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		r := &running{fixture: f, sink: &sink{start: time.Now()}, hinter: &hinter{}}
		r.onArm = func() { f.write("a.yaml", pod("a", "i")) }
		f.source = f.newSource(func(c *file.Config) { c.Hinter = r.hinter })
		r.start()
		assert.Equal(t, []snapshot{{0, []string{"a=i"}}}, r.take())
		require.NoError(t, r.stop())
	})
}

func TestWatchThatEndsIsArmedAgainAndNothingIsMissed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(newFixture(t))
		r.take()
		require.Equal(t, 1, calls(r))
		r.endWatch()
		r.wait(99 * ms)
		assert.Equal(t, 1, calls(r))
		r.write("a.yaml", pod("a", "i")) // no watch is armed
		r.wait(time.Second)
		assert.Equal(t, 2, calls(r))
		assert.Equal(t, []snapshot{{100 * ms, []string{"a=i"}}}, r.take())

		r.onArm = func() { r.write("c.yaml", pod("c", "i")) } // after the scan, before the watch
		r.endWatch()
		r.wait(time.Second)
		assert.Equal(t, []string{"a=i", "c=i"}, r.take()[0].pods)
		r.onArm = nil
		r.failWith(errors.New("no more watches"))
		r.endWatch()
		r.wait(10 * time.Second)
		assert.Equal(t, 3+4, calls(r), "after 0.1, 1.1, 3.1 and 7.1 seconds")
		assert.Equal(t, []string{".: cannot watch for changes, looking every 20s instead: no more watches"}, r.told())
		r.write("b.yaml", pod("b", "i"))
		r.wait(20 * time.Second)
		assert.Equal(t, []string{"a=i", "b=i", "c=i"}, r.take()[0].pods)
		r.failWith(nil)
		r.wait(20 * time.Second)
		assert.Equal(t, []string{". ok"}, r.told())
		require.NoError(t, r.stop())
		assert.Equal(t, 4, ended(r))
	})
}

func TestSinkThatFailsEndsRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		r := &running{fixture: f, sink: &sink{err: podconfig.ErrStopped}, hinter: &hinter{}}
		f.source = f.newSource(func(c *file.Config) { c.Hinter = r.hinter })
		assert.ErrorIs(t, f.source.Run(t.Context(), r.sink), podconfig.ErrStopped)
		assert.Equal(t, 1, ended(r))
	})
}

// vim writes a test file "4913", renames x to x~, writes x anew, and removes x~. sed -i renames a
// new file over x.
func TestEditorsNeverEndAPod(t *testing.T) {
	edits := map[string]func(r *running){
		"vim": func(r *running) {
			r.change(func() { r.write("4913", "") })
			r.change(func() { r.remove("4913") })
			r.change(func() { r.rename("a.yaml", "a.yaml~") })
			r.wait(50 * ms) // under load
			r.change(func() { r.write("a.yaml", pod("a", "j")) })
			r.change(func() { r.remove("a.yaml~") })
		},
		"sed -i": func(r *running) {
			r.change(func() { r.write("sedXy", pod("a", "j")[:30]) })
			r.change(func() { r.write("sedXy", pod("a", "j")) })
			r.wait(50 * ms)
			r.change(func() { r.rename("sedXy", "a.yaml") })
		},
		"unlink and create": func(r *running) {
			r.change(func() { r.remove("a.yaml") })
			r.wait(90 * ms)
			r.change(func() { r.write("a.yaml", pod("a", "j")) })
		},
		"truncate and write": func(r *running) {
			for _, n := range []int{0, 20, 60, 90} {
				r.change(func() { r.write("a.yaml", pod("a", "j")[:n]) })
				r.wait(200 * ms)
			}
			r.change(func() { r.write("a.yaml", pod("a", "j")) })
		},
		"atomic writer": func(r *running) {
			for i, dir := range []string{"..1", "..2"} {
				require.NoError(r, os.Mkdir(r.path(dir), 0o755))
				r.write(dir+"/a.yaml", pod("a", []string{"i", "j"}[i]))
			}
			require.NoError(r, os.Symlink("..1", r.path("..data")))
			require.NoError(r, os.Symlink("..data/a.yaml", r.path("a.new")))
			r.change(func() { r.rename("a.new", "a.yaml") })
			r.wait(time.Second)
			require.NoError(r, os.Symlink("..2", r.path("..data_tmp")))
			r.change(func() { r.rename("..data_tmp", "..data") })
		},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				f.write("a.yaml", pod("a", "i"))
				f.write("z.yaml", pod("z", "i"))
				r := run(f)
				r.take()
				edit(r)
				r.wait(time.Second)
				got := r.take()
				require.NotEmpty(t, got)
				require.Len(t, got, 1, "one change")
				assert.Equal(t, []string{"a=j", "z=i"}, got[0].pods)
				require.NoError(t, r.stop())
			})
		})
	}
}

// Some programs leave a copy beside the file, under a name that sorts first.
func TestCopyThatComesFirstChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("b.yaml", pod("a", "i"))
		r := run(f)
		r.take()
		r.change(func() { r.write("a.yaml", pod("a", "i")) })
		r.wait(time.Second)
		assert.Empty(t, r.take())
		assert.Len(t, r.told(), 1)
		r.change(func() { r.remove("a.yaml") })
		r.wait(time.Second)
		assert.Empty(t, r.take())
		require.NoError(t, r.stop())
	})
}

// The kubelet's event handler opens a FIFO like any file, and hangs until a process writes to the
// FIFO.
func TestUpstreamFIFOBlocksTheSourceForever(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(newFixture(t))
		r.change(func() { require.NoError(t, syscall.Mkfifo(r.path("a.yaml"), 0o644)) })
		r.change(func() { r.write("b.yaml", pod("b", "i")) })
		r.wait(time.Second)
		assert.Equal(t, []string{"b=i"}, r.take()[1].pods)
		require.NoError(t, r.stop())
	})
}

// In the kubelet, a list tick between two delete events shows [], then the second pod again, then
// [].
func TestUpstreamListRacingEventsFlaps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.write("k", pod("k", "i"))
		f.write("m", pod("m", "i"))
		r := run(f)
		r.wait(20*time.Second - 5*ms)
		r.take()
		r.change(func() { r.remove("k"); r.remove("m") })
		r.wait(10 * ms)
		r.hint()
		r.wait(time.Minute)
		got := r.take()
		require.Len(t, got, 1)
		assert.Empty(t, got[0].pods)
		require.NoError(t, r.stop())
	})
}

func TestNewNamesTheBadField(t *testing.T) {
	good := func() file.Config { return file.Config{Path: "/x/", Decoder: &manifest.Decoder{NodeName: "n"}} }
	s, err := file.New(good())
	require.NoError(t, err)
	assert.Equal(t, "/x", s.Path())
	assert.Equal(t, podconfig.SourceFile, s.Name())
	for want, edit := range map[string]func(*file.Config){
		"Path":                func(c *file.Config) { c.Path = "" },
		"Decoder":             func(c *file.Config) { c.Decoder = nil },
		`Decoder: manifest`:   func(c *file.Config) { c.Decoder = &manifest.Decoder{} },
		"Period -1ns":         func(c *file.Config) { c.Period = -1 },
		"Debounce -1ns must ": func(c *file.Config) { c.Debounce = -1 },
	} {
		c := good()
		edit(&c)
		_, err := file.New(c)
		require.ErrorIs(t, err, file.ErrConfig)
		assert.ErrorContains(t, err, strings.TrimSpace(want))
	}
}

func TestStopWhileWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(newFixture(t))
		r.change(func() { r.write("a.yaml", pod("a", "i")) })
		require.NoError(t, r.stop())
		synctest.Wait()
	})
}
