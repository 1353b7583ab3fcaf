// SPDX-License-Identifier: Apache-2.0

// Command witness runs in the containers of package soak. It records its life cycle and checks its
// volumes; see package soak.
package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/soak"
)

// witness is one instance of a container.
type witness struct {
	folder     soak.Folder
	pod        string
	generation int
	name       string
	kind       string
	instance   string

	after   time.Duration // the program ends after this time; 0 = never
	codes   string        // exit codes, one per start
	term    time.Duration // the time to end after SIGTERM; negative = SIGTERM is ignored
	scratch string        // an emptyDir, may be empty
	config  string        // a ConfigMap, may be empty
	needs   string        // init containers that must have ended before

	held    *os.File // the lock; never closed but by the kernel
	mark    string   // the file in scratch with the witness's mark
	version int      // of config
}

func main() {
	w := &witness{instance: strings.ToLower(rand.Text()[:10])}
	folder := flag.String("folder", "", "what is shared with the test")
	hook := flag.Duration("hook", 0, "be a preStop hook that takes that long")
	flag.StringVar(&w.pod, "pod", "", "")
	flag.IntVar(&w.generation, "generation", 0, "")
	flag.StringVar(&w.name, "container", "", "")
	flag.StringVar(&w.kind, "kind", "main", "")
	flag.DurationVar(&w.after, "after", 0, "")
	flag.StringVar(&w.codes, "codes", "0", "")
	flag.DurationVar(&w.term, "term", 0, "")
	flag.StringVar(&w.scratch, "scratch", "", "")
	flag.StringVar(&w.config, "config", "", "")
	flag.StringVar(&w.needs, "needs", "", "")
	flag.Parse()
	w.folder = soak.Folder(*folder)
	if *hook > 0 {
		w.say(soak.Hooked, 0, "")
		time.Sleep(*hook)
		return
	}
	os.Exit(w.run())
}

// look is how often the witness looks at everything.
const look = 100 * time.Millisecond

func (w *witness) run() (code int) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	_ = os.WriteFile("/dev/termination-log", []byte(w.instance), 0o644)
	lock, holder := w.lock()
	w.held = lock
	w.say(soak.Started, os.Getpid(), w.kind)
	if lock == nil {
		w.say(soak.Doubled, 0, holder)
	}
	w.checkInit()
	start := w.countStart()
	w.openScratch()
	var end <-chan time.Time
	if w.after > 0 {
		end = time.After(w.after)
		code = w.code(start)
	}
	tick := time.NewTicker(look)
	for {
		w.checkScratch()
		w.checkConfig()
		select {
		case <-tick.C:
			if ordered, ok := w.order(); ok {
				w.say(soak.Ended, ordered, "ordered")
				return ordered
			}
			continue
		case <-asked:
			w.say(soak.Asked, 0, "")
			if w.term >= 0 {
				end, code = time.After(w.term), 0
			}
			continue
		case <-end:
		}
		w.done(code)
		w.say(soak.Ended, code, "")
		return code
	}
}

func (w *witness) say(e soak.Event, code int, text string) {
	_ = w.folder.Write(soak.Record{
		At: time.Now(), Event: e, Pod: w.pod, Generation: w.generation, Container: w.name,
		Instance: w.instance, Code: code, Text: text,
	})
}

func (w *witness) cannot(err error) {
	if err != nil {
		w.say(soak.WitnessFailed, 0, err.Error())
	}
}

// lock takes the exclusive lock of the container. The kernel releases the lock when the process is
// gone, and not before.
func (w *witness) lock() (f *os.File, holder string) {
	f, err := os.OpenFile(w.folder.Lock(w.pod, w.name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		w.cannot(err)
		return nil, ""
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		other, _ := os.ReadFile(f.Name())
		f.Close()
		return nil, string(other)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(w.instance), 0)
	}
	w.cannot(err)
	return f, ""
}

// order returns the exit code ordered by the test.
func (w *witness) order() (code int, ok bool) {
	text, err := os.ReadFile(w.folder.Order(w.instance))
	if err != nil || len(text) == 0 {
		return 0, false
	}
	code, err = strconv.Atoi(string(text))
	return code, err == nil
}

// code returns the exit code of a start, counted from 0.
func (w *witness) code(start int) int {
	codes := strings.Split(w.codes, ",")
	code, err := strconv.Atoi(codes[min(start, len(codes)-1)])
	w.cannot(err)
	return code
}

// countStart returns the number of earlier starts.
func (w *witness) countStart() int {
	path := w.folder.Mark(w.pod, w.generation, w.name) + ".starts"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.cannot(err)
		return 0
	}
	defer f.Close()
	info, err := f.Stat()
	w.cannot(err)
	_, err = f.Write([]byte{'x'})
	w.cannot(err)
	if info == nil {
		return 0
	}
	return int(info.Size())
}

func (w *witness) done(code int) {
	if w.kind == "init" && code == 0 && w.scratch != "" {
		w.cannot(os.WriteFile(filepath.Join(w.scratch, "init."+w.name), nil, 0o644))
	}
}

func (w *witness) checkInit() {
	for name := range strings.SplitSeq(w.needs, ",") {
		if name == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(w.scratch, "init."+name)); err != nil {
			w.say(soak.InitMissing, 0, name)
		}
	}
}

// openScratch checks the mark of an earlier instance in the volume, or writes a mark. The test's
// folder holds a copy of the mark outside the volume.
func (w *witness) openScratch() {
	if w.scratch == "" {
		return
	}
	inside, outside := filepath.Join(w.scratch, "mark."+w.name), w.folder.Mark(w.pod, w.generation, w.name)
	own := fmt.Sprintf("%s.%d ", w.pod, w.generation)
	found, err := os.ReadFile(inside)
	missing := errors.Is(err, fs.ErrNotExist)
	known, err := os.ReadFile(outside)
	_, anew := os.Stat(w.folder.Anew(w.pod, w.generation))
	switch {
	case !missing && !strings.HasPrefix(string(found), own):
		w.say(soak.VolumeStale, 0, string(found))
	case err == nil && string(found) != string(known) && anew != nil:
		w.say(soak.VolumeLost, 0, fmt.Sprintf("want %q, got %q", known, found))
	}
	w.mark = inside
	if missing {
		found = []byte(own + w.instance)
		w.cannot(os.WriteFile(inside, found, 0o644))
	}
	w.cannot(os.WriteFile(outside, found, 0o644))
	w.cannot(os.WriteFile(filepath.Join(w.scratch, "ready"), nil, 0o644))
}

func (w *witness) checkScratch() {
	if w.mark == "" {
		return
	}
	if _, err := os.Stat(w.mark); err != nil {
		w.say(soak.VolumeGone, 0, err.Error())
		w.mark = ""
	}
}
