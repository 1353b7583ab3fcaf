// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"context"
	"errors"
	"iter"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// stops makes a backend stop in another way.
func stops(stop func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error) func(*broken) {
	return func(b *broken) { b.stop = stop }
}

// stopMutants stop too early, too late, too hard or not at all.
func stopMutants() []mutant {
	return []mutant{
		{"no grace", "StopIsPolite StopSeesOwnExit StopKillsAfterGrace ReopenKeepsRunning", stops(func(b *broken, ctx context.Context, id runtime.ContainerID, _ time.Duration) error {
			return b.Runtime.StopContainer(ctx, id, 0)
		})},
		{"waits out the grace period", "StopIsPolite StopOfCreated", stops(func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
			err := b.Runtime.StopContainer(ctx, id, grace)
			time.Sleep(grace)
			return err
		})},
		{"a floor of a minute", "StopWithoutGraceKills", stops(func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
			return b.Runtime.StopContainer(ctx, id, max(grace, time.Minute))
		})},
		{"does not wait", "StopIsPolite StopSeesOwnExit", stops(func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_ = b.Runtime.StopContainer(ctx, id, grace)
			return nil
		})},
		{"never kills", "StopKillsAfterGrace StopWithoutGraceKills", stops(func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
			ctx, cancel := context.WithTimeout(ctx, grace+time.Millisecond)
			defer cancel()
			_ = b.Runtime.StopContainer(ctx, id, time.Hour)
			return nil
		})},
		{"a cancelled stop is a success", "CancelledStopIsResumable", stops(func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
			if err := b.Runtime.StopContainer(ctx, id, grace); ctx.Err() == nil {
				return err
			}
			return nil
		})},
		{"a cancelled stop kills", "CancelledStopIsResumable ReopenInTheMiddleOfAStop", stops(func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
			err := b.Runtime.StopContainer(ctx, id, grace)
			if ctx.Err() != nil {
				_ = b.Runtime.StopContainer(context.Background(), id, 0)
			}
			return err
		})},
		{"a stop does not listen to ctx", "CancelledStopIsResumable", stops(func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
			return errors.Join(b.Runtime.StopContainer(context.WithoutCancel(ctx), id, grace), ctx.Err())
		})},
		{"a second stop is an error", "StopTwice StopOfExitedKeepsTheExit", stops(func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
			if b.is(id, runtime.StateExited) {
				return errMutant
			}
			return b.Runtime.StopContainer(ctx, id, grace)
		})},
		{"what was stopped was killed", "StopSeesOwnExit StopIsPolite StopOfExitedKeepsTheExit", func(b *broken) {
			stopped := map[runtime.ContainerID]bool{}
			b.stop = func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
				stopped[id] = true
				return b.Runtime.StopContainer(ctx, id, grace)
			}
			reportsContainers(func(c *runtime.ContainerStatus) {
				if stopped[c.ID] {
					c.ExitCode = 137
				}
			})(b)
		}},
		{"a child lives on", "NothingOutlivesItsContainer", func(b *broken) {
			b.stop = func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
				c := b.find(id)
				time.AfterFunc(1500*time.Millisecond, func() {
					f, _ := os.OpenFile(c.LogPath, os.O_APPEND|os.O_WRONLY, 0)
					_, _ = f.WriteString("2000-01-01T00:00:00Z stdout F beat\n")
					_ = f.Close()
				})
				return b.Runtime.StopContainer(ctx, id, grace)
			}
		}},
		{"stop of created is an error", "StopOfCreated", stops(func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
			if b.is(id, runtime.StateCreated) {
				return errMutant
			}
			return b.Runtime.StopContainer(ctx, id, grace)
		})},
		{"sandbox stop only marks", "SandboxStopKillsAtOnce", func(b *broken) {
			b.stopSB = func(*broken, context.Context, runtime.SandboxID) error { return nil }
			reports(func(st *runtime.PodStatus) { st.Sandboxes = nil })(b)
		}},
		{"sandbox stop leaves it ready", "SandboxStopKillsAtOnce ListRunningOnly SandboxStopTwice", func(b *broken) {
			b.stopSB = func(*broken, context.Context, runtime.SandboxID) error { return nil }
		}},
		{"sandbox stop is polite", "SandboxStopKillsAtOnce", func(b *broken) {
			b.stopSB = func(b *broken, ctx context.Context, id runtime.SandboxID) error {
				time.Sleep(time.Minute)
				return b.Runtime.StopSandbox(ctx, id)
			}
		}},
		{"second sandbox stop is an error", "SandboxStopTwice", func(b *broken) {
			b.stopSB = func(b *broken, ctx context.Context, id runtime.SandboxID) error {
				pods, _ := b.Runtime.List(ctx, runtime.ListOptions{})
				for _, p := range pods {
					for _, s := range p.Sandboxes {
						if s.ID == id && !s.Ready {
							return errMutant
						}
					}
				}
				return b.Runtime.StopSandbox(ctx, id)
			}
		}},
	}
}

// removeMutants remove too little or too much.
func removeMutants() []mutant {
	removes := func(remove func(b *broken, ctx context.Context, id runtime.ContainerID) error) func(*broken) {
		return func(b *broken) { b.remove = remove }
	}
	return []mutant{
		{"remove refuses what runs", "RemoveStopsFirst", removes(func(b *broken, ctx context.Context, id runtime.ContainerID) error {
			if b.is(id, runtime.StateRunning) {
				return errMutant
			}
			return b.Runtime.RemoveContainer(ctx, id)
		})},
		{"remove is polite", "RemoveStopsFirst", removes(func(b *broken, ctx context.Context, id runtime.ContainerID) error {
			return errors.Join(b.Runtime.StopContainer(ctx, id, time.Minute), b.Runtime.RemoveContainer(ctx, id))
		})},
		{"remove only stops", "RemoveStopsFirst ReopenKeepsStoppedAndRemoved", removes(func(b *broken, ctx context.Context, id runtime.ContainerID) error {
			return b.Runtime.StopContainer(ctx, id, 0)
		})},
		{"second remove is an error", "RemoveTwice NotFound", removes(func(b *broken, ctx context.Context, id runtime.ContainerID) error {
			if b.Runtime.RemoveContainer(ctx, id) != nil {
				return errMutant
			}
			return nil
		})},
		{"remove takes the logs", "RemoveKeepsLogs", removes(func(b *broken, ctx context.Context, id runtime.ContainerID) error {
			if c := b.find(id); c != nil {
				_ = os.Remove(c.LogPath)
			}
			return b.Runtime.RemoveContainer(ctx, id)
		})},
		{"remove of a sandbox leaves it", "SandboxRemoveTakesItsRecords RemoveTwice", func(b *broken) {
			b.rmSB = func(b *broken, ctx context.Context, id runtime.SandboxID) error {
				return b.Runtime.StopSandbox(ctx, id)
			}
		}},
		{"remove of a sandbox takes all of the pod", "SandboxAttempts", func(b *broken) {
			b.rmSB = func(b *broken, ctx context.Context, id runtime.SandboxID) error {
				pods, _ := b.Runtime.List(ctx, runtime.ListOptions{})
				for _, p := range pods {
					for _, s := range p.Sandboxes {
						_ = b.Runtime.RemoveSandbox(ctx, s.ID)
					}
				}
				return nil
			}
		}},
	}
}

// abilityMutants break the optional interfaces.
func abilityMutants() []mutant {
	watches := func(watch func(b *broken, ctx context.Context) iter.Seq2[types.UID, error]) func(*broken) {
		return func(b *broken) { b.watch = watch }
	}
	execs := func(exec func(b *broken, ctx context.Context, id runtime.ContainerID, cmd []string) ([]byte, []byte, int, error)) func(*broken) {
		return func(b *broken) { b.exec = exec }
	}
	return []mutant{
		{"watch says nothing", "WatchBeginsWithEveryPod WatchHintsAtAnExit", watches(func(_ *broken, ctx context.Context) iter.Seq2[types.UID, error] {
			return func(func(types.UID, error) bool) { <-ctx.Done() }
		})},
		{"watch only begins", "WatchHintsAtAnExit", watches(func(b *broken, ctx context.Context) iter.Seq2[types.UID, error] {
			return func(yield func(types.UID, error) bool) {
				for uid := range b.Runtime.Watch(ctx) {
					if !yield(uid, nil) {
						return
					}
					break
				}
				<-ctx.Done()
			}
		})},
		{"watch fails at the end of ctx", "WatchEndsWithItsContext WatchHintsAtAnExit", watches(func(b *broken, ctx context.Context) iter.Seq2[types.UID, error] {
			return func(yield func(types.UID, error) bool) {
				for uid := range b.Runtime.Watch(ctx) {
					if !yield(uid, nil) {
						return
					}
				}
				yield("", ctx.Err())
			}
		})},
		{"exec's failure is an error", "ExecOutputAndCode", execs(func(b *broken, ctx context.Context, id runtime.ContainerID, cmd []string) ([]byte, []byte, int, error) {
			out, errOut, code, err := b.Runtime.Exec(ctx, id, cmd)
			if code != 0 {
				err = errMutant
			}
			return out, errOut, code, err
		})},
		{"exec mixes the streams", "ExecOutputAndCode", execs(func(b *broken, ctx context.Context, id runtime.ContainerID, cmd []string) ([]byte, []byte, int, error) {
			out, errOut, code, err := b.Runtime.Exec(ctx, id, cmd)
			return append(out, errOut...), nil, code, err
		})},
		{"exec keeps too little", "ExecCutsOutput", execs(func(b *broken, ctx context.Context, id runtime.ContainerID, cmd []string) ([]byte, []byte, int, error) {
			out, errOut, code, err := b.Runtime.Exec(ctx, id, cmd)
			return out[:min(len(out), 4096)], errOut, code, err
		})},
		{"exec goes on after ctx", "ExecEndsWithItsContext", execs(func(b *broken, ctx context.Context, id runtime.ContainerID, cmd []string) ([]byte, []byte, int, error) {
			defer time.Sleep(time.Minute)
			return b.Runtime.Exec(ctx, id, cmd)
		})},
		{"exec's end is a success", "ExecEndsWithItsContext ExecCannotRun", execs(func(b *broken, ctx context.Context, id runtime.ContainerID, cmd []string) ([]byte, []byte, int, error) {
			out, errOut, code, err := b.Runtime.Exec(ctx, id, cmd)
			if err != nil {
				return nil, nil, 137, nil
			}
			return out, errOut, code, nil
		})},
		{"check refuses everything", "CheckAcceptsAPlainPod", func(b *broken) {
			b.check = func(*broken, *v1.Pod) error { return errMutant }
		}},
		{"check refuses nothing", "CheckRefuses", func(b *broken) {
			b.check = func(*broken, *v1.Pod) error { return nil }
		}},
		{"check names no fields", "CheckRefuses", func(b *broken) {
			b.check = func(*broken, *v1.Pod) error { return &runtime.UnsupportedError{Runtime: "fake"} }
		}},
		{"a sandbox is made all the same", "CheckRefuses", func(b *broken) {
			b.run = func(b *broken, ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
				spec.Pod = nil
				return b.Runtime.RunSandbox(ctx, spec)
			}
		}},
		{"a container is made all the same", "CheckRefuses", takes(func(s *runtime.ContainerSpec) { s.Pod = nil })},
	}
}
