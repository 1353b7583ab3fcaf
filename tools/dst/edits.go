// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"strings"
)

// edit replaces a text of a file below GOROOT/src.
type edit struct {
	purpose string
	file    string   // with | between the files of which one has the text, by Go version
	old     []string // texts of the known Go versions; exactly one of them is in the file, once
	new     string   // %s is the old text
}

// added are our own files, by their path below GOROOT/src.
var added = map[string]string{
	"runtime/dst.go": runtimeText,
	"context/dst.go": contextText,
}

//go:embed runtime.go.txt
var runtimeText string

//go:embed context.go.txt
var contextText string

// edits are all changes of Go's files. Each new text calls a function of an added file, so that an
// edit is small.
var edits = []edit{
	// A bubble has random numbers and a queue of runnable goroutines.
	{"a bubble has a state", "runtime/synctest.go", []string{"\tid      uint64 // unique id\n"}, "%s\tdst     dstState\n"},
	{"a bubble begins and ends", "runtime/synctest.go", []string{"\tgp.bubble = bubble\n\tdefer func() {\n"}, "\tdstBegin(bubble)\n%s\t\tdstEnd(bubble)\n"},
	{"garbage is collected between two instants", "runtime/synctest.go", []string{"\t\tbubble.now = next\n"}, "%s\t\tunlock(&bubble.mu)\n\t\tdstCollect()\n\t\tlock(&bubble.mu)\n"},

	// The order of goroutines is a function of the seed.
	{"a runnable goroutine waits in its bubble's queue", "runtime/proc.go", []string{"func runqput(pp *p, gp *g, next bool) {\n"}, "%s\tif gp.bubble != nil {\n\t\tdstPut(gp)\n\t\treturn\n\t}\n"},
	{"so does a goroutine that yields", "runtime/proc.go", []string{"\tif preempted && sched.gcwaiting.Load() {\n"}, "\tif gp.bubble != nil || preempted && sched.gcwaiting.Load() {\n"},
	{"the next goroutine comes from that queue", "runtime/proc.go", []string{"\t\tif t == h {\n\t\t\treturn nil, false\n\t\t}\n\t\tgp := pp.runq[h%uint32(len(pp.runq))].ptr()\n"},
		"\t\tif t == h {\n\t\t\treturn dstGet(), false\n\t\t}\n\t\tgp := pp.runq[h%%uint32(len(pp.runq))].ptr()\n"},
	{"that queue is work of the P", "runtime/proc.go", []string{"\t\t\treturn head == tail && runnext == 0\n"}, "\t\t\treturn head == tail && runnext == 0 && dstFirst == 0\n"},
	{"there is a single P", "runtime/proc.go", []string{"func procresize(nprocs int32) *p {\n"}, "%s\tnprocs = 1\n"},
	{"the number of Ps stays", "runtime/proc.go", []string{`strconv.ParseInt(gogetenv("GOMAXPROCS"), 10, 32)`}, `strconv.ParseInt("1", 10, 32)`},
	{"a select is in random order", "runtime/select.go", []string{"cheaprandn(uint32(norder + 1))"}, "dstRandn(uint32(norder + 1))"},
	{"a select does not start its timers in the order of addresses", "runtime/select.go", []string{"\t\tif c.timer != nil {\n\t\t\tblockTimerChan(c)\n\t\t}\n"}, ""},
	{"but in its random order", "runtime/select.go", []string{"\t// wait for someone to wake us up\n\tgp.param = nil\n"},
		"\tfor _, casei := range pollorder {\n\t\tif c = scases[casei].c; c.timer != nil {\n\t\t\tblockTimerChan(c)\n\t\t}\n\t}\n%s"},
	{"timers of an instant are in random order", "runtime/time.go", []string{"\t\t\tt.rand = cheaprand()\n"}, "\t\t\tt.rand = dstRandn(1<<32 - 1)\n"},

	// Real time has no influence.
	{"no goroutine of a bubble is preempted", "runtime/proc.go", []string{"\tif gp == nil || gp == mp.g0 {\n\t\treturn false\n\t}\n\tif readgstatus(gp)&^_Gscan == _Gsyscall {\n"},
		"\tif gp == nil || gp == mp.g0 || gp.bubble != nil {\n\t\treturn false\n\t}\n\tif readgstatus(gp)&^_Gscan == _Gsyscall {\n"},
	{"nor by a signal", "runtime/preempt.go", []string{"\treturn (gp.preempt || gp.m.p != 0 && gp.m.p.ptr().preempt) &&"}, "\treturn gp.bubble == nil && (gp.preempt || gp.m.p != 0 && gp.m.p.ptr().preempt) &&"},
	{"a system call of a bubble keeps the P", "runtime/proc.go", []string{"\t\tthread, ok := setBlockOnExitSyscall(pp)\n\t\tif !ok {\n\t\t\t// Not in a syscall, or something changed out from under us.\n\t\t\tgoto done\n\t\t}\n"},
		"%s\t\tif !dstLong(thread.gp, pd.schedwhen, now) {\n\t\t\tthread.resume()\n\t\t\tgoto done\n\t\t}\n"},
	{"a mutex starves in virtual time", "runtime/sema.go", []string{"func internal_sync_nanotime() int64 {\n"}, "%s\tif b := getg().bubble; b != nil {\n\t\treturn b.now\n\t}\n"},
	{"no collection begins by itself while a bubble lives", "runtime/mgc.go", []string{"\tswitch t.kind {\n\tcase gcTriggerHeap:\n"}, "\tif dstBubbles > 0 && t.kind != gcTriggerCycle {\n\t\treturn false\n\t}\n%s"},
	{"no goroutine of a bubble helps a collection", "runtime/mgcmark.go", []string{"func gcAssistAlloc(gp *g) {\n"}, "%s\tif gp.bubble != nil {\n\t\treturn\n\t}\n"},

	// Random numbers come from the seed.
	{"the seed is a variable of the environment", "runtime/proc.go", []string{"\tgoargs()\n\tgoenvs()\n"}, "%s\tdstSetSeed(gogetenv(\"DST_SEED\"))\n"},
	{"a test sets the seed", "runtime/runtime.go", []string{"func syscall_runtimeSetenv(key, value string) {\n"}, "%s\tif key == \"DST_SEED\" {\n\t\tdstSetSeed(value)\n\t}\n"},
	{"a process begins as every other", "runtime/rand.go", []string{"\tglobalRand.state.Init(*seed)\n"}, "\tdstStartup(seed)\n%s"},
	{"maps do not draw from the stream", "runtime/rand.go", []string{"//go:nosplit\n//go:linkname rand\nfunc rand() uint64 {\n"}, "//go:nosplit\nfunc dstOutside() uint64 {\n"},
	{"other packages do", "runtime/rand.go", []string{"\treturn uint32((uint64(uint32(rand())) * uint64(n)) >> 32)\n"}, "\treturn uint32((uint64(uint32(dstRand())) * uint64(n)) >> 32)\n"},
	{"fastrand", "runtime/rand.go", []string{"func legacy_fastrand() uint32 {\n\treturn uint32(rand())\n"}, "func legacy_fastrand() uint32 {\n\treturn uint32(dstRand())\n"},
	{"fastrand64", "runtime/rand.go", []string{"func legacy_fastrand64() uint64 {\n\treturn rand()\n"}, "func legacy_fastrand64() uint64 {\n\treturn dstRand()\n"},
	{"math/rand", "math/rand/rand.go", []string{linkname}, dstLinkname},
	{"math/rand/v2", "math/rand/v2/rand.go", []string{linkname}, dstLinkname},
	{"temporary files", "os/tempfile.go", []string{linkname}, dstLinkname},
	{"DNS", "net/dnsclient.go", []string{linkname}, dstLinkname},

	// Maps with the same history have the same order.
	{"a hash is equal on all processors", "runtime/alg.go|internal/runtime/maps/runtime_alg.go", []string{"func alginit() {\n", "func AlgInit() {\n"},
		"%s\tfor i := range hashkey {\n\t\thashkey[i] = uintptr(bootstrapRand())\n\t}\n\tif true {\n\t\treturn\n\t}\n"},

	// Contexts end in the order of their creation: a map of the runtime has them by address.
	{"a context counts its children", "context/context.go", []string{"\tchildren map[canceler]struct{} // set to nil by the first cancel call\n"}, "\tchildren map[canceler]uint64\n\tdstBorn  uint64\n"},
	{"the map has their numbers", "context/context.go", []string{"\t\t\t\tp.children = make(map[canceler]struct{})\n"}, "\t\t\t\tp.children = make(map[canceler]uint64)\n"},
	{"a child gets a number", "context/context.go", []string{"\t\t\tp.children[child] = struct{}{}\n"}, "\t\t\tp.dstBorn++\n\t\t\tp.children[child] = p.dstBorn\n"},
	{"children end in order", "context/context.go", []string{"\tfor child := range c.children {\n"}, "\tfor _, child := range dstOrder(c.children) {\n"},
}

const (
	linkname    = "//go:linkname runtime_rand runtime.rand\n"
	dstLinkname = "//go:linkname runtime_rand runtime.dstRand\n"
)

// apply returns text after the edit.
func (e edit) apply(text string) (string, error) {
	for _, old := range e.old {
		switch strings.Count(text, old) {
		case 0:
			continue
		case 1:
			return strings.Replace(text, old, strings.NewReplacer("%s", old, "%%", "%").Replace(e.new), 1), nil
		}
		return "", fmt.Errorf("the text to replace is there more than once (%s)", e.purpose)
	}
	return "", fmt.Errorf("the text to replace is not there (%s)", e.purpose)
}
