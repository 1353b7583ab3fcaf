// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// container writes a log as a runtime does.
type container struct {
	t    *testing.T
	path string

	mu      sync.Mutex
	file    *os.File
	written []string
	running bool
	stamp   int
}

func startContainer(t *testing.T, path string) *container {
	c := &container{t: t, path: path, running: true}
	c.reopen()
	return c
}

func (c *container) reopen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(c.t, err)
	if c.file != nil {
		require.NoError(c.t, c.file.Close())
	}
	c.file = f
}

// print writes one line.
func (c *container) print() { c.say("line") }

// say writes one line that begins with the text.
func (c *container) say(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text = fmt.Sprint(text, " ", len(c.written))
	_, err := c.file.WriteString(entryLine(Stdout, "F", text))
	require.NoError(c.t, err)
	c.written = append(c.written, text)
}

// rotate renames the log, and reopens it after the delay.
func (c *container) rotate(delay time.Duration) {
	c.stamp++
	require.NoError(c.t, os.Rename(c.path, fmt.Sprintf("%s.20260701-12%02d%02d", c.path, c.stamp/60, c.stamp%60)))
	c.print() // into the old file
	time.Sleep(delay)
	c.print()
	c.reopen()
}

func (c *container) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	require.NoError(c.t, c.file.Close())
}

func (c *container) isRunning(context.Context) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running, nil
}

func (c *container) text() string { return strings.Join(c.written, "\n") + "\n" }

// collected is a writer that reports new data.
type collected struct {
	mu   sync.Mutex
	text strings.Builder
	came []time.Time
}

func (w *collected) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came = append(w.came, time.Now())
	return w.text.Write(p)
}

func (w *collected) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *collected) times() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.came)
}

// following reads the log of c until it ends.
func following(t *testing.T, c *container, change func(*Request)) (w *collected, done chan error) {
	w, done = &collected{}, make(chan error, 1)
	req := Request{Path: c.path, Options: Options{Follow: true}, Stdout: w, Running: c.isRunning}
	if change != nil {
		change(&req)
	}
	go func() {
		_, err := Read(t.Context(), req)
		done <- err
	}()
	return w, done
}

func inBubble(t *testing.T, f func(t *testing.T, path string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	synctest.Test(t, func(t *testing.T) { f(t, path) })
}

func TestFollow(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		c.print()
		w, done := following(t, c, nil)
		synctest.Wait()
		require.Equal(t, c.text(), w.String(), "at once")
		require.Len(t, w.times(), 2, "and before that nothing at all, to begin the answer")
		time.Sleep(time.Second)
		c.print()
		printed := time.Now()
		time.Sleep(time.Second)
		require.LessOrEqual(t, w.times()[2].Sub(printed), defaultPoll)
		c.print()
		c.stop()
		ended := time.Now()
		require.NoError(t, <-done)
		require.LessOrEqual(t, time.Since(ended), stateInterval+defaultPoll)
		require.Equal(t, c.text(), w.String(), "what came just before the end, too")
	})
}

func TestFollowOfADeadContainerEndsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		c.print()
		c.stop()
		for _, change := range []func(*Request){nil, func(r *Request) { r.Running = nil }} {
			began := time.Now()
			w, done := following(t, c, change)
			require.NoError(t, <-done)
			require.Zero(t, time.Since(began))
			require.Equal(t, c.text(), w.String())
		}
	})
}

// A container whose runtime does not answer counts as running.
func TestFollowOutlivesTheRuntime(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		var up atomic.Bool
		w, done := following(t, c, func(r *Request) {
			r.Running = func(ctx context.Context) (bool, error) {
				if !up.Load() {
					return false, errors.New("down")
				}
				return c.isRunning(ctx)
			}
		})
		time.Sleep(time.Minute)
		c.print()
		c.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		up.Store(true)
		require.NoError(t, <-done)
		require.Equal(t, c.text(), w.String())
	})
}

func TestFollowIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		changed := make(chan struct{})
		w, done := following(t, c, func(r *Request) { r.Changed, r.Poll = changed, time.Hour })
		synctest.Wait()
		began := time.Now()
		c.print()
		changed <- struct{}{}
		synctest.Wait()
		require.Equal(t, c.text(), w.String())
		c.stop()
		changed <- struct{}{}
		require.NoError(t, <-done)
		require.Zero(t, time.Since(began), "also of the end, without waiting for the next question")
	})
}

func TestFollowIsNotToldAnyMore(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		changed := make(chan struct{})
		close(changed)
		_, done := following(t, c, func(r *Request) { r.Changed = changed })
		time.Sleep(time.Minute)
		c.stop()
		require.NoError(t, <-done)
	})
}

func TestFollowAsksForTheStateNowAndThen(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		var asked atomic.Int32
		_, done := following(t, c, func(r *Request) {
			r.Running = func(ctx context.Context) (bool, error) { asked.Add(1); return c.isRunning(ctx) }
		})
		time.Sleep(time.Minute)
		c.stop()
		require.NoError(t, <-done)
		require.LessOrEqual(t, asked.Load(), int32(63))
	})
}

func TestFollowEndsAtItsLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		limit := int64(10)
		w, done := following(t, c, func(r *Request) { r.LimitBytes = &limit })
		c.print()
		time.Sleep(time.Second)
		c.print()
		require.NoError(t, <-done)
		require.Equal(t, c.text()[:10], w.String())
		c.stop()
	})
}

func TestFollowDoesNotWaitForTheEndAfterARotation(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		w, done := following(t, c, nil)
		for range 3 {
			c.print()
			c.rotate(0)
			c.print()
			time.Sleep(4 * defaultPoll)
			synctest.Wait()
			require.Equal(t, c.text(), w.String())
		}
		c.stop()
		require.NoError(t, <-done)
	})
}

// The writer may close the old file a little after the creation of the new file.
func TestFollowStaysALittleInTheOldFile(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		w, done := following(t, c, nil)
		time.Sleep(defaultPoll / 2)
		require.NoError(t, os.Rename(path, path+".20260701-120000"))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		time.Sleep(defaultPoll)
		c.print()
		c.reopen()
		c.print()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, c.text(), w.String())
		c.stop()
		require.NoError(t, <-done)
	})
}

func TestFollowWaitsForItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Read(ctx, Request{Path: path, Options: Options{Follow: true}, Running: c.isRunning})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.stop()
	})
}

func TestFollowWaitsForALogThatMayCome(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := &container{t: t, path: path, running: true}
		w, done := following(t, c, nil)
		time.Sleep(time.Minute)
		c.reopen()
		c.print()
		time.Sleep(time.Minute)
		require.Equal(t, c.text(), w.String())
		c.stop()
		require.NoError(t, <-done)
	})
}

func TestFollowStartsOverInAFileThatWasEmptied(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		for range 3 {
			c.print()
		}
		w, done := following(t, c, nil)
		time.Sleep(time.Second)
		require.NoError(t, os.Truncate(path, 0))
		c.print()
		time.Sleep(time.Second)
		require.Equal(t, c.text(), w.String())
		c.stop()
		require.NoError(t, <-done)
	})
}

func TestFollowHoldsALineUntilItIsWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		w, done := following(t, c, nil)
		text := entryLine(Stdout, "F", "in two writes")
		for _, part := range []string{text[:20], text[20:40], text[40:]} {
			require.Empty(t, w.String())
			_, err := c.file.WriteString(part)
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		require.Equal(t, "in two writes\n", w.String())
		_, err := c.file.WriteString(entryLine(Stdout, "P", "never") + strings.TrimSuffix(entryLine(Stdout, "P", " whole"), "\n"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, "in two writes\n", w.String())
		c.stop()
		require.NoError(t, <-done)
		require.Equal(t, "in two writes\nnever whole", w.String())
	})
}

// Whatever the writer and the rotation do, and when, each line comes once and in
// its place.
func TestFollowThroughRotations(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, path string) {
				r := rand.New(rand.NewPCG(seed, 7))
				pause := func() { time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond) }
				c := startContainer(t, path)
				for range r.IntN(3) {
					c.print()
					c.rotate(0)
				}
				w, done := following(t, c, nil)
				for range 30 {
					switch r.IntN(5) {
					case 0:
						c.rotate(time.Duration(r.IntN(3)) * 150 * time.Millisecond)
					case 1, 2:
						pause()
					default:
						c.print()
					}
				}
				c.stop()
				require.NoError(t, <-done)
				require.Equal(t, c.text(), w.String())
			})
		})
	}
}

// A reader with a slow client finds files that were rotated, compressed and renamed meanwhile.
func TestFollowBehindASlowClient(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		for range 2 {
			c.print()
			c.rotate(0)
		}
		w := &slow{delay: time.Second}
		done := make(chan error, 1)
		go func() {
			_, err := Read(t.Context(), Request{Path: path, Options: Options{Follow: true}, Stdout: w, Running: c.isRunning})
			done <- err
		}()
		time.Sleep(2500 * time.Millisecond) // it waits at the end of an empty log
		c.print()
		time.Sleep(300 * time.Millisecond) // it is stuck in a write
		c.rotate(0)
		for range 3 {
			c.print()
			c.rotate(0)
		}
		dir, err := openFolder(filepath.Dir(path))
		require.NoError(t, err)
		names, err := dir.names()
		require.NoError(t, err)
		for _, f := range history(names, "0.log")[:5] {
			require.NoError(t, compressFile(t.Context(), dir, "0.log"+f.suffix()))
		}
		require.NoError(t, dir.Close())
		c.stop()
		require.NoError(t, <-done)
		require.Equal(t, c.text(), w.text.String())
	})
}

type slow struct {
	delay time.Duration
	text  strings.Builder
}

func (w *slow) Write(p []byte) (int, error) {
	time.Sleep(w.delay)
	return w.text.Write(p)
}

// A follower of a quiet log keeps little memory, and reads the lines that come later, of any length.
func TestFollowAQuietLog(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		c := startContainer(t, path)
		var w strings.Builder
		done := make(chan error, 1)
		go func() {
			_, err := Read(t.Context(), Request{Path: path, Options: Options{Follow: true}, Stdout: &w, Running: c.isRunning})
			done <- err
		}()
		for _, length := range []int{1, quietBuffer, 3 * quietBuffer, firstBuffer, maxEntry / 2, 1} {
			for range 3 {
				c.say(strings.Repeat("x", length))
			}
			time.Sleep(3 * time.Second)
		}
		c.stop()
		require.NoError(t, <-done)
		require.Equal(t, c.text(), w.String())
	})

	r := &reading{decoder: newDecoder()}
	r.decoder.reset(strings.NewReader(strings.Repeat(entryLine(Stdout, "F", "x"), 100)), 0)
	_, err := r.decoder.next()
	require.NoError(t, err)
	r.out.batch = make([]byte, batch)
	r.out.lines[Stderr] = line{open: true, text: []byte("begun")}
	for range 2 * quietWaits {
		r.release()
	}
	require.Less(t, r.decoder.from, r.decoder.to, "it keeps lines that were not used yet")
	require.Empty(t, r.out.batch)
	require.Equal(t, "begun", string(r.out.lines[Stderr].text))
	for err == nil {
		_, err = r.decoder.next()
	}
	for range 2 * quietWaits {
		r.release()
	}
	require.Len(t, r.decoder.buf, quietBuffer)
}
