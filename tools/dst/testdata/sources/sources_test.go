// SPDX-License-Identifier: Apache-2.0

// Package sources has a bubble for each source of noise. Each test prints the order of its events.
package sources

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// order is the order of events in a bubble.
type order struct {
	mu     sync.Mutex
	events []int
}

func (o *order) add(event int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, event)
}

var kept [][]byte // what disturb allocates

// disturb makes each process and each run of a test another: with other addresses, other timers of
// the runtime, and other goroutines outside the bubble.
func disturb() {
	if os.Getenv("DISTURB") == "" {
		return
	}
	for range time.Now().UnixNano() / 1000 % 1000 {
		kept = append(kept, make([]byte, 16+time.Now().UnixNano()%512))
	}
	for range time.Now().UnixNano() % 7 {
		go func() {
			for range 1000 {
				runtime.Gosched()
			}
		}()
	}
}

// bubble runs body with an order, and prints the order.
func bubble(t *testing.T, body func(t *testing.T, o *order)) {
	disturb()
	o := new(order)
	synctest.Test(t, func(t *testing.T) { body(t, o) })
	fmt.Println("ORDER", t.Name(), o.events)
}

// together starts n goroutines at an instant.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			time.Sleep(time.Second)
			f(i)
		})
	}
	wg.Wait()
}

func TestManyGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T, o *order) {
		together(1000, func(i int) {
			for range i % 3 {
				runtime.Gosched()
			}
			o.add(i)
		})
	})
}

func TestSelect(t *testing.T) {
	bubble(t, func(t *testing.T, o *order) {
		a, b := make(chan int, 50), make(chan int, 50)
		for i := range 50 {
			a <- i
			b <- 100 + i
		}
		for range 60 {
			select {
			case i := <-a:
				o.add(i)
			case i := <-b:
				o.add(i)
			}
		}
	})
}

func TestTimers(t *testing.T) {
	bubble(t, func(t *testing.T, o *order) {
		for i := range 50 {
			time.AfterFunc(time.Second, func() { o.add(i) })
		}
		time.Sleep(2 * time.Second)
	})
}

// A select that waits for several timers starts them in the order of the addresses of their channels.
func TestTimersOfASelect(t *testing.T) {
	upwards := time.Now().UnixNano()/1000%2 == 0
	bubble(t, func(t *testing.T, o *order) {
		together(30, func(i int) {
			a, b := time.NewTimer(time.Second), time.NewTimer(time.Second)
			if reflect.ValueOf(a.C).Pointer() < reflect.ValueOf(b.C).Pointer() != upwards {
				a, b = b, a
			}
			select {
			case <-a.C:
				o.add(i)
			case <-b.C:
				o.add(100 + i)
			}
		})
	})
}

func TestMapsAndRandomNumbers(t *testing.T) {
	bubble(t, func(t *testing.T, o *order) {
		m := make(map[string]int)
		for i := range 100 {
			m[fmt.Sprint(i)] = i
		}
		for _, i := range m {
			o.add(i)
		}
		o.add(rand.IntN(1_000_000))
	})
}

// A mutex that a goroutine waits for during a millisecond of real time is handed over, instead of
// being free for all.
func TestMutexStarvation(t *testing.T) {
	bubble(t, func(t *testing.T, o *order) {
		var mu sync.Mutex
		together(20, func(i int) {
			for range 5 {
				mu.Lock()
				o.add(i)
				runtime.Gosched()
				for began := deadline(); began.running(); {
				}
				mu.Unlock()
			}
		})
	})
}

// stopwatch takes real time: up to a millisecond, by the speed of the machine.
type stopwatch int

func deadline() *stopwatch { s := stopwatch(rand.IntN(300_000)); return &s }

func (s *stopwatch) running() bool { *s--; return *s > 0 }

// The first run of a process fills caches: of encoding/json, reflect, fmt.
func TestColdCaches(t *testing.T) {
	bubble(t, func(t *testing.T, o *order) {
		together(20, func(i int) {
			type field struct{ A, B, C map[string]int }
			kind := reflect.ArrayOf(i+1, reflect.TypeFor[field]())
			data, err := json.Marshal(reflect.New(kind).Interface())
			if err != nil || len(data) == 0 {
				t.Error(err)
			}
			o.add(i)
			o.add(rand.IntN(100))
		})
		m := make(map[int]int)
		for i := range 100 {
			m[i] = i
		}
		for i := range m {
			o.add(i)
		}
	})
}

// A context keeps its children in a map with pointers as keys.
func TestContexts(t *testing.T) {
	bubble(t, func(t *testing.T, o *order) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Add(1)
			context.AfterFunc(ctx, func() { o.add(i); wg.Done() })
		}
		cancel()
		wg.Wait()
	})
}

// A thread in a system call loses its P after some microseconds of real time.
func TestSystemCalls(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, o *order) {
		together(20, func(i int) {
			for n := range 5 {
				f, err := os.Create(filepath.Join(dir, fmt.Sprint(i, "-", n)))
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintln(f, i)
				if err := f.Sync(); err != nil {
					t.Error(err)
				}
				f.Close()
				o.add(i)
			}
		})
	})
}

// A collection of garbage stops goroutines, and lets them help.
func TestGarbage(t *testing.T) {
	bubble(t, func(t *testing.T, o *order) {
		together(50, func(i int) {
			for range 20 {
				_ = fmt.Sprint(make([]*int, 10_000)[0])
				time.Sleep(time.Millisecond)
				o.add(i)
			}
		})
	})
}

// A goroutine that computes for long is preempted after ten milliseconds of real time.
func TestPreemption(t *testing.T) {
	bubble(t, func(t *testing.T, o *order) {
		together(6, func(i int) {
			sum := 0
			for n := range 30_000_000 {
				sum += n ^ i
			}
			o.add(i + sum&1)
		})
	})
}
