// SPDX-License-Identifier: Apache-2.0

// The programs of README.md and docs are built with this file and run in virtual time: see TestProgramFaults.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/process"
)

const (
	// faultsFor is how long the faults of a play last, from its beginning.
	faultsFor = time.Minute
	// givenUp is after how long a backend gives up a call that hangs, as runtime/cri does.
	givenUp = 2 * time.Minute
	// healing is after how long the pods are in their right state: a call that hangs and the longest back-off.
	healing = 15 * time.Minute
	// ending is how long a program may take after the interrupt, and after the faults.
	ending = 10 * time.Minute
)

// manifests are a pod that runs, one that crashes, and one with a command that does not exist.
const manifests = `{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {terminationGracePeriodSeconds: 2, volumes: [{name: d, emptyDir: {}}],
  initContainers: [{name: init, image: none, command: [/bin/true]}],
  containers: [{name: c, image: none, command: [/bin/sleep, "1000000000"], volumeMounts: [{name: d, mountPath: /data}],
    livenessProbe: {exec: {command: [/bin/true]}, periodSeconds: 10}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: crash}, spec: {containers: [{name: c, image: none, command: [/bin/false]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: missing}, spec: {containers: [{name: c, image: none, command: [/nonexist]}]}}
`

// The backend and the signals of the program under test.
var (
	world     *fake.World
	interrupt context.CancelFunc
)

// newBackend stands in for process.New.
func newBackend(process.Options) (*fake.Runtime, error) {
	return fake.New(fake.Options{World: world})
}

// interrupted stands in for signal.NotifyContext.
func interrupted() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	interrupt = cancel
	return ctx, cancel
}

// behave runs the commands of the pods.
func behave(_ *v1.Pod, spec runtime.ContainerSpec) fake.Script {
	switch spec.Command[0] {
	case "/bin/true":
		return fake.Exit(0, 0)
	case "/bin/false":
		return fake.Exit(0, 1)
	case "/bin/sleep":
		seconds, err := strconv.Atoi(spec.Command[1])
		return fake.Script{ExitAfter: time.Duration(seconds) * time.Second, StartErr: err}
	}
	return fake.Script{StartErr: errors.New("no such file or directory")}
}

// trouble is a kind of fault, or something that happens to containers by itself.
type trouble struct {
	name   string
	fault  fake.Fault
	happen func(uid types.UID, container string) error
}

// troubles are all fault kinds of the fake for each call, its lies, and what happens in its world.
func troubles(t *testing.T) (out []trouble) {
	failure := errors.New("the backend is broken")
	for _, op := range []fake.Op{
		fake.OpRunSandbox, fake.OpStopSandbox, fake.OpRemoveSandbox, fake.OpCreateContainer, fake.OpStartContainer, fake.OpStopContainer,
		fake.OpRemoveContainer, fake.OpList, fake.OpPodStatus, fake.OpWatch, fake.OpExec,
	} {
		hangs := fake.Fault{Latency: givenUp, Err: context.DeadlineExceeded}
		if op == fake.OpWatch || op == fake.OpExec {
			hangs = fake.Fault{HangUntilCtx: true} // a Watch lasts as long as it is wanted; a command, as its probe says
		}
		once, late := hangs, hangs
		once.Times, late.DoneButReplyLost = 1, true
		for kind, fault := range map[string]fake.Fault{
			"fails":            {Err: failure},
			"fails once":       {Err: failure, Times: 1},
			"is slow":          {Latency: 7 * time.Second},
			"hangs":            hangs,
			"hangs once":       once,
			"loses replies":    {DoneButReplyLost: true},
			"is done too late": late,
		} {
			fault.On.Op, fault.For = op, faultsFor
			out = append(out, trouble{name: fmt.Sprintf("%s %s", op, kind), fault: fault})
		}
	}
	for lie, name := range map[fake.Lie]string{fake.Omit: "omits pods", fake.Stale: "is stale", fake.DuplicateSandbox: "doubles sandboxes"} {
		// A PodStatus that lies breaks the contract of runtime.Runtime.
		out = append(out, trouble{name: "List " + name, fault: fake.Fault{On: fake.Target{Op: fake.OpList}, Lie: lie, For: faultsFor}})
	}
	for name, happen := range map[string]func(types.UID, string) error{
		"killed":       func(uid types.UID, name string) error { return world.Kill(uid, name, 137) },
		"lost track":   func(uid types.UID, name string) error { return world.LoseTrack(uid, name) },
		"no record":    func(uid types.UID, name string) error { return world.LoseRecords(uid, name) },
		"replaced":     func(uid types.UID, name string) error { _, err := world.Replace(uid, name); return err },
		"no address":   func(uid types.UID, _ string) error { return world.SandboxLosesIP(uid) },
		"was rebooted": func(types.UID, string) error { world.Reboot(); return nil },
	} {
		out = append(out, trouble{name: name, happen: happen})
	}
	return out
}

// TestProgram plays each trouble: when it is over, the pods get into their right state, and an interrupt ends all of them.
// Then the program is interrupted at random instants, during each trouble in turn, and ends with nothing left.
func TestProgram(t *testing.T) {
	all := slices.DeleteFunc(troubles(t), func(tr trouble) bool { return !casetest.Chosen(tr.name) })
	for _, tr := range all {
		t.Run(tr.name, func(t *testing.T) { play(t, tr, 0) })
	}
	slices.SortFunc(all, func(a, b trouble) int { return strings.Compare(a.name, b.name) })
	instants, err := strconv.Atoi(os.Getenv("KEELSON_INSTANTS"))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range instants {
		tr, at := all[i%len(all)], 1+time.Duration(rng.Int64N(int64(2*faultsFor)))
		t.Run(fmt.Sprintf("%s, interrupt after %v", tr.name, at), func(t *testing.T) { play(t, tr, at) })
	}
}

// play runs the program with a trouble. With an instant it is interrupted then, else after its pods are in their right state.
func play(t *testing.T, tr trouble, instant time.Duration) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	os.Args = []string{"program", filepath.Join(dir, "pods"), filepath.Join(dir, "state")}
	for _, folder := range os.Args[1:] {
		must0(t, os.Mkdir(folder, 0o755))
	}
	for i, doc := range strings.Split(manifests, "---\n") {
		must0(t, os.WriteFile(filepath.Join(dir, "pods", strconv.Itoa(i)+".yaml"), []byte(doc), 0o644))
	}
	synctest.Test(t, func(t *testing.T) {
		var err error
		world, err = fake.NewWorld(fake.WorldOptions{Behave: behave})
		must0(t, err)
		defer world.Close()
		if tr.happen == nil {
			_, err = world.Inject(tr.fault)
			must0(t, err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			main()
		}()
		if instant > 0 {
			strike(t, tr, instant)
		} else {
			strike(t, tr, faultsFor)
			judge(t)
		}
		interrupt()
		select {
		case <-done:
		case <-time.After(faultsFor + ending):
			t.Fatalf("the program does not end\n%s", world.Journal())
		}
		for _, pod := range world.Truth() {
			for _, c := range pod.Containers {
				if c.State == runtime.StateRunning || c.State == runtime.StateUnknown {
					t.Errorf("container %s of %s is left", c.Name, pod.Name)
				}
			}
			for _, s := range pod.Sandboxes {
				if s.Ready {
					t.Errorf("a sandbox of %s is left", pod.Name)
				}
			}
		}
		if t.Failed() {
			journal := world.Journal()
			t.Log(journal[max(0, len(journal)-100):])
		}
	})
}

// strike waits until at, and lets the trouble happen to each running container on the way.
func strike(t *testing.T, tr trouble, at time.Duration) {
	time.Sleep(at / 2)
	synctest.Wait()
	if tr.happen != nil {
		for _, pod := range world.Truth() {
			for _, c := range pod.Containers {
				if c.State == runtime.StateRunning {
					must0(t, tr.happen(pod.UID, c.Name))
				}
			}
		}
	}
	time.Sleep(at - at/2)
	synctest.Wait()
}

// judge waits until the pods have healed. The container of web then runs, once, in the only ready sandbox; those of the
// other pods are started again and again.
func judge(t *testing.T) {
	time.Sleep(healing)
	synctest.Wait()
	before := starts()
	time.Sleep(6 * time.Minute)
	synctest.Wait()
	after := starts()
	for _, pod := range strings.Fields(os.Getenv("KEELSON_PODS")) {
		if pod == "web" {
			if sandboxes, containers := up(pod); sandboxes != 1 || containers != 1 {
				t.Errorf("%s has %d ready sandboxes and %d running containers", pod, sandboxes, containers)
			}
		} else if before[pod] == after[pod] {
			t.Errorf("%s is not started again: %d times, all in all", pod, after[pod])
		}
	}
	if err := world.NoOverlap(); err != nil {
		t.Error(err)
	}
}

// starts is how often a container of each pod was to be started.
func starts() map[string]int {
	counts := map[string]int{}
	for _, e := range world.Journal() {
		if e.Op == fake.OpStartContainer {
			counts[short(e.Pod)]++
		}
	}
	return counts
}

// up is how many sandboxes and containers of a pod are there.
func up(name string) (sandboxes, containers int) {
	for _, pod := range world.Truth() {
		if short(pod.Name) != name {
			continue
		}
		for _, s := range pod.Sandboxes {
			if s.Ready {
				sandboxes++
			}
		}
		for _, c := range pod.Containers {
			if c.State == runtime.StateRunning {
				containers++
			}
		}
	}
	return sandboxes, containers
}

// short is the name of a pod without that of its node.
func short(pod string) string {
	name, _, _ := strings.Cut(pod, "-")
	return name
}

func must0(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
