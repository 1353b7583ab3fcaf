// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// mutant is a way for a backend to break a rule, and the cases that notice.
type mutant struct {
	name, caught string
	spoil        func(b *broken)
}

func mutants() []mutant {
	return slices.Concat(recordMutants(), startMutants(), stopMutants(), removeMutants(), durableMutants(), outputMutants(), abilityMutants(),
		resourceMutants(), statsMutants(), streamMutants(), imageMutants())
}

var errMutant = errors.New("the mutant says no")

// reports makes a backend report a false status.
func reports(change func(st *runtime.PodStatus)) func(*broken) {
	return func(b *broken) {
		b.podStat = func(b *broken, ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
			st, err := b.Runtime.PodStatus(ctx, uid)
			if err == nil {
				change(st)
			}
			return st, err
		}
	}
}

// reportsContainers is reports for each container.
func reportsContainers(change func(c *runtime.ContainerStatus)) func(*broken) {
	return reports(func(st *runtime.PodStatus) {
		for i := range st.Containers {
			change(&st.Containers[i])
		}
	})
}

// lists makes a backend return a false list.
func lists(change func(pods []*runtime.PodStatus) []*runtime.PodStatus) func(*broken) {
	return func(b *broken) {
		b.list = func(b *broken, ctx context.Context, opts runtime.ListOptions) ([]*runtime.PodStatus, error) {
			pods, err := b.Runtime.List(ctx, opts)
			return change(pods), err
		}
	}
}

// takes makes a backend use a changed spec.
func takes(change func(spec *runtime.ContainerSpec)) func(*broken) {
	return func(b *broken) {
		b.create = func(b *broken, ctx context.Context, sb runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
			change(&spec)
			return b.Runtime.CreateContainer(ctx, sb, spec)
		}
	}
}

// find returns an instance's status, or nil.
func (b *broken) find(id runtime.ContainerID) *runtime.ContainerStatus {
	pods, _ := b.Runtime.List(context.Background(), runtime.ListOptions{})
	for _, p := range pods {
		st, _ := b.Runtime.PodStatus(context.Background(), p.UID)
		for i := range st.Containers {
			if st.Containers[i].ID == id {
				return &st.Containers[i]
			}
		}
	}
	return nil
}

func (b *broken) is(id runtime.ContainerID, state runtime.State) bool {
	c := b.find(id)
	return c != nil && c.State == state
}

// recordMutants report records that are not true.
func recordMutants() []mutant {
	return []mutant{
		{"all exits are 0", "ExitCodes RestartNumbering StopKillsAfterGrace", reportsContainers(func(c *runtime.ContainerStatus) { c.ExitCode = 0 })},
		{"all exits are errors", "RunAndExit ExitCodes", reportsContainers(func(c *runtime.ContainerStatus) {
			if c.Reason != "" {
				c.Reason = runtime.ReasonError
			}
		})},
		{"no FinishedAt", "RunAndExit", reportsContainers(func(c *runtime.ContainerStatus) { c.FinishedAt = time.Time{} })},
		{"no StartedAt", "RunAndExit", reportsContainers(func(c *runtime.ContainerStatus) { c.StartedAt = time.Time{} })},
		{"StartedAt is CreatedAt", "CreatedIsNotRunning", reportsContainers(func(c *runtime.ContainerStatus) { c.StartedAt = c.CreatedAt })},
		{"created counts as running", "CreatedIsNotRunning", reportsContainers(func(c *runtime.ContainerStatus) {
			if c.State == runtime.StateCreated {
				c.State, c.StartedAt = runtime.StateRunning, c.CreatedAt
			}
		})},
		{"oldest first", "RestartNumbering SandboxAttempts", reports(func(st *runtime.PodStatus) {
			slices.Reverse(st.Containers)
			slices.Reverse(st.Sandboxes)
		})},
		{"another runtime's name", "RunAndExit", reportsContainers(func(c *runtime.ContainerStatus) { c.ID.Runtime = "docker" })},
		{"another pod's UID", "RunAndExit", reports(func(st *runtime.PodStatus) { st.UID += "x" })},
		{"no ObservedAt", "RunAndExit PodStatusOfUnknownUID", reports(func(st *runtime.PodStatus) { st.ObservedAt = time.Time{} })},
		{"hash lost", "RecordRoundTrip", takes(func(s *runtime.ContainerSpec) { s.Hash = "" })},
		{"empty annotations lost", "RecordRoundTrip", takes(func(s *runtime.ContainerSpec) { delete(s.Annotations, "empty") })},
		{"restart count lost", "RecordRoundTrip RestartNumbering", takes(func(s *runtime.ContainerSpec) { s.RestartCount = 0 })},
		{"pod's name lost", "RecordRoundTrip", reports(func(st *runtime.PodStatus) { st.Name = "" })},
		{"attempt lost", "RecordRoundTrip SandboxAttempts", reports(func(st *runtime.PodStatus) {
			for i := range st.Sandboxes {
				st.Sandboxes[i].Attempt = 0
			}
		})},
		{"log path lost", "RecordRoundTrip", reportsContainers(func(c *runtime.ContainerStatus) { c.LogPath = "" })},
		{"statuses share the annotations", "StatusBelongsToTheCaller", func(b *broken) {
			shared := map[string]string{"runtimetest/name": "main"}
			reportsContainers(func(c *runtime.ContainerStatus) { c.Annotations = shared })(b)
		}},
		{"statuses share the IPs", "StatusBelongsToTheCaller", func(b *broken) {
			shared := []string{"10.0.0.1"}
			reports(func(st *runtime.PodStatus) {
				for i := range st.Sandboxes {
					st.Sandboxes[i].IPs = shared
				}
			})(b)
		}},
		{"unknown UID is an error", "PodStatusOfUnknownUID", func(b *broken) {
			b.podStat = func(b *broken, ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
				st, err := b.Runtime.PodStatus(ctx, uid)
				if err == nil && len(st.Sandboxes)+len(st.Containers) == 0 {
					return nil, runtime.ErrNotFound
				}
				return st, err
			}
		}},
		{"list leaves out pods without containers", "ListGroupsByPod", lists(func(pods []*runtime.PodStatus) []*runtime.PodStatus {
			return slices.DeleteFunc(pods, func(st *runtime.PodStatus) bool { return len(st.Containers) == 0 })
		})},
		{"list leaves out created containers", "OrphanCleanUp ListGroupsByPod ListAgreesWithPodStatus", lists(func(pods []*runtime.PodStatus) []*runtime.PodStatus {
			for _, st := range pods {
				st.Containers = slices.DeleteFunc(st.Containers, func(c runtime.ContainerStatus) bool { return c.State == runtime.StateCreated })
			}
			return pods
		})},
		{"list has an entry per container", "ListGroupsByPod", lists(func(pods []*runtime.PodStatus) []*runtime.PodStatus {
			for _, st := range pods {
				for i := 1; i < len(st.Containers); i++ {
					pods = append(pods, &runtime.PodStatus{UID: st.UID, Containers: st.Containers[i : i+1]})
				}
			}
			return pods
		})},
		{"list confuses states", "ListAgreesWithPodStatus", lists(func(pods []*runtime.PodStatus) []*runtime.PodStatus {
			for _, st := range pods {
				for i := range st.Containers {
					st.Containers[i].State = runtime.StateRunning
				}
			}
			return pods
		})},
		{"RunningOnly is ignored", "ListRunningOnly", func(b *broken) {
			b.list = func(b *broken, ctx context.Context, _ runtime.ListOptions) ([]*runtime.PodStatus, error) {
				return b.Runtime.List(ctx, runtime.ListOptions{})
			}
		}},
		{"a sandbox without IP", "SandboxIsReady", reports(func(st *runtime.PodStatus) {
			for i := range st.Sandboxes {
				st.Sandboxes[i].IPs = nil
			}
		})},
		{"a sandbox is ready later", "SandboxIsReady", reports(func(st *runtime.PodStatus) {
			for i := range st.Sandboxes {
				st.Sandboxes[i].Ready = time.Since(st.Sandboxes[i].CreatedAt) > time.Second
			}
		})},
		{"a sandbox ends with its last container", "SandboxOutlivesItsContainers", reports(func(st *runtime.PodStatus) {
			for i := range st.Sandboxes {
				st.Sandboxes[i].Ready = len(st.Running()) > 0
			}
		})},
	}
}

// startMutants start wrong containers, or start in a wrong way.
func startMutants() []mutant {
	return []mutant{
		{"no log directory", "SandboxIsReady", func(b *broken) {
			b.run = func(b *broken, ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
				spec.LogDirectory = ""
				return b.Runtime.RunSandbox(ctx, spec)
			}
		}},
		{"create starts", "CreatedIsNotRunning", func(b *broken) {
			b.create = func(b *broken, ctx context.Context, sb runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
				id, err := b.Runtime.CreateContainer(ctx, sb, spec)
				return id, errors.Join(err, b.Runtime.StartContainer(ctx, id))
			}
		}},
		{"a second start is ignored", "SecondStartIsRefused ReopenKeepsRunning", func(b *broken) {
			b.start = func(b *broken, ctx context.Context, id runtime.ContainerID) error {
				if b.is(id, runtime.StateRunning) {
					return nil
				}
				return b.Runtime.StartContainer(ctx, id)
			}
		}},
		{"a failed start leaves the container created", "FailedStartEndsIt", reportsContainers(func(c *runtime.ContainerStatus) {
			if c.Reason == runtime.ReasonStartError {
				c.State, c.ExitCode, c.Reason, c.Message, c.FinishedAt = runtime.StateCreated, 0, "", "", time.Time{}
			}
		})},
		{"a failed start is any error", "FailedStartEndsIt", reportsContainers(func(c *runtime.ContainerStatus) {
			if c.Reason == runtime.ReasonStartError {
				c.Reason = runtime.ReasonError
			}
		})},
		{"a failed start has begun", "FailedStartEndsIt", reportsContainers(func(c *runtime.ContainerStatus) {
			if c.Reason == runtime.ReasonStartError {
				c.StartedAt = c.CreatedAt
			}
		})},
		{"an error tells a secret", "FailedStartEndsIt", func(b *broken) {
			b.start = func(b *broken, ctx context.Context, id runtime.ContainerID) error {
				if err := b.Runtime.StartContainer(ctx, id); err != nil {
					return fmt.Errorf("start with PASSWORD=correct-horse: %w", err)
				}
				return nil
			}
		}},
		{"not found is another error", "NotFound", func(b *broken) {
			b.start = func(b *broken, ctx context.Context, id runtime.ContainerID) error {
				if b.Runtime.StartContainer(ctx, id) != nil {
					return errMutant
				}
				return nil
			}
		}},
		{"a start goes on after it was given up", "CancelledStartNeverHappensAfterStop", func(b *broken) {
			b.start = func(b *broken, ctx context.Context, id runtime.ContainerID) error {
				if b.find(id).RestartCount == 3 {
					<-ctx.Done()
					time.AfterFunc(time.Millisecond, func() { _ = b.Runtime.StartContainer(context.Background(), id) })
					return ctx.Err()
				}
				return b.Runtime.StartContainer(ctx, id)
			}
			b.stop = leavesCreated
		}},
		{"a stopped created container can be started", "StartAfterStopOfCreatedIsRefused", func(b *broken) { b.stop = leavesCreated }},
		{"fails when two calls meet", "ConcurrentPods ConcurrentContainersOfOnePod ConcurrentStops", func(b *broken) {
			var busy atomic.Int32
			alone := func(f func() error) error {
				defer busy.Add(-1)
				if busy.Add(1) > 1 {
					return errMutant
				}
				time.Sleep(time.Microsecond)
				return f()
			}
			b.start = func(b *broken, ctx context.Context, id runtime.ContainerID) error {
				return alone(func() error { return b.Runtime.StartContainer(ctx, id) })
			}
			b.stop = func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
				return alone(func() error { return b.Runtime.StopContainer(ctx, id, grace) })
			}
		}},
		{"list fails while something stops", "ConcurrentPods ConcurrentContainersOfOnePod", func(b *broken) {
			var busy atomic.Int32
			b.stop = func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
				busy.Add(1)
				time.Sleep(100 * time.Millisecond)
				busy.Add(-1)
				return b.Runtime.StopContainer(ctx, id, grace)
			}
			b.list = func(b *broken, ctx context.Context, opts runtime.ListOptions) ([]*runtime.PodStatus, error) {
				if busy.Load() > 0 {
					return nil, errMutant
				}
				return b.Runtime.List(ctx, opts)
			}
		}},
	}
}

// leavesCreated leaves created containers as they are.
func leavesCreated(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
	if b.is(id, runtime.StateCreated) {
		return nil
	}
	return b.Runtime.StopContainer(ctx, id, grace)
}

// durableMutants lose or invent facts across a restart.
func durableMutants() []mutant {
	return []mutant{
		{"nothing is remembered", "ReopenKeepsCreated ReopenKeepsRunning ReopenReportsExitMeanwhile ReopenKeepsExited ReopenKeepsStoppedAndRemoved " +
			"ReopenInTheMiddleOfAStop ReopenManyTimes RecordRoundTrip FailedStartEndsIt OrphanCleanUp LogGoesOnAfterReopen WatchBeginsWithEveryPod", func(b *broken) {
			b.reopen = func(b *broken) {
				world, _ := fake.NewWorld(fake.WorldOptions{})
				b.Runtime, _ = fake.New(fake.Options{World: world})
			}
		}},
		{"what ran is killed", "ReopenKeepsRunning LogGoesOnAfterReopen", func(b *broken) {
			b.reopen = func(b *broken) {
				pods, _ := b.Runtime.List(context.Background(), runtime.ListOptions{RunningOnly: true})
				for _, p := range pods {
					for _, c := range p.Containers {
						_ = b.Kill(p.UID, c.Name, 137)
					}
				}
			}
		}},
		{"an exit happens when it is found", "ReopenReportsExitMeanwhile", reportsContainers(func(c *runtime.ContainerStatus) {
			if c.State == runtime.StateExited {
				c.FinishedAt = time.Now()
			}
		})},
		{"a reboot that was not noticed", "Reboot", func(b *broken) { b.reboot = func(*broken) {} }},
		{"sandboxes stay ready over a reboot", "Reboot", func(b *broken) {
			reports(func(st *runtime.PodStatus) {
				for i := range st.Sandboxes {
					st.Sandboxes[i].Ready = true
				}
			})(b)
		}},
	}
}

// outputMutants run a changed command, or log wrongly.
func outputMutants() []mutant {
	logs := func(change func([]fake.Line) []fake.Line) func(*broken) {
		return func(b *broken) {
			b.create = func(b *broken, ctx context.Context, sb runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
				b.Script(fake.Target{Image: spec.Image}, fake.Script{
					ExitAfter: fake.AtOnce,
					Output: func(spec runtime.ContainerSpec) []fake.Line {
						var out []fake.Line
						stdout, stderr := b.acts.get(spec.Image).Output(spec)
						for _, text := range stdout {
							out = append(out, fake.Line{Text: text})
						}
						for _, text := range stderr {
							out = append(out, fake.Line{Stderr: true, Text: text})
						}
						return change(out)
					},
				})
				return b.Runtime.CreateContainer(ctx, sb, spec)
			}
		}
	}
	return []mutant{
		{"env is lost", "EnvAndArgsArrive ExecHasTheContainersEnv", takes(func(s *runtime.ContainerSpec) { s.Env = nil })},
		{"args are lost", "EnvAndArgsArrive", takes(func(s *runtime.ContainerSpec) { s.Args = nil })},
		{"working directory is lost", "WorkingDirectory ExecHasTheContainersEnv", takes(func(s *runtime.ContainerSpec) { s.WorkingDir = "/" })},
		{"no log", "LogFormat LogOfLongLines LogOfAnUnfinishedLine RemoveKeepsLogs", takes(func(s *runtime.ContainerSpec) { s.LogPath = "" })},
		{"the last line is lost", "LogOfAnUnfinishedLine LogFormat", logs(func(l []fake.Line) []fake.Line {
			return slices.DeleteFunc(l, func(l fake.Line) bool { return l.Text == "end" })
		})},
		{"stderr is logged as stdout", "LogFormat", logs(func(l []fake.Line) []fake.Line {
			for i := range l {
				l[i].Stderr = false
			}
			return l
		})},
		{"long lines are broken", "LogOfLongLines", logs(func(l []fake.Line) []fake.Line {
			for i := range l {
				if len(l[i].Text) > 1000 {
					l = slices.Insert(l, i, fake.Line{Text: l[i].Text[:1000]})
					l[i+1].Text = l[i+1].Text[1000:]
					break
				}
			}
			return l
		})},
		{"a log is asked for", "NoLogPath", func(b *broken) {
			b.create = func(b *broken, ctx context.Context, sb runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
				if spec.LogPath == "" {
					return runtime.ContainerID{}, errMutant
				}
				return b.Runtime.CreateContainer(ctx, sb, spec)
			}
		}},
	}
}
