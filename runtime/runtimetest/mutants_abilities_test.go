// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// resourceMutants change resources otherwise than asked for, and measure wrongly.
func resourceMutants() []mutant {
	updates := func(update func(b *broken, ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error) func(*broken) {
		return func(b *broken) { b.update = update }
	}
	meters := func(usage func(b *broken, ctx context.Context, id runtime.ContainerID) (int64, error)) func(*broken) {
		return func(b *broken) { b.usage = usage }
	}
	return []mutant{
		{"an update does nothing", "UpdateIsReported UpdateTakesLimitsAway UpdateNeedsARunningContainer", updates(func(*broken, context.Context, runtime.ContainerID, v1.ResourceRequirements) error { return nil })},
		{"an update loses what is not said", "UpdateTakesLimitsAway", updates(func(b *broken, ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error {
			if c := b.find(id); c != nil && c.Resources != nil {
				for name, was := range c.Resources.Limits {
					if _, said := want.Limits[name]; !said {
						if want.Limits == nil {
							want.Limits = v1.ResourceList{}
						}
						want.Limits[name] = was // as in the CRI, where 0 is no change
					}
				}
			}
			return b.Runtime.UpdateResources(ctx, id, want)
		})},
		{"an update is forgotten", "UpdateIsReported", func(b *broken) {
			b.reopen = func(b *broken) {
				reportsContainers(func(c *runtime.ContainerStatus) {
					made := demand("100m", "32Mi", "500m", "64Mi")
					c.Resources = &made
				})(b)
			}
		}},
		{"an update of what is gone succeeds", "UpdateNeedsARunningContainer", updates(func(b *broken, ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error {
			if b.find(id) == nil {
				return nil
			}
			return b.Runtime.UpdateResources(ctx, id, want)
		})},
		{"no memory is in use", "MemoryUsageIsTold", meters(func(b *broken, ctx context.Context, id runtime.ContainerID) (int64, error) {
			_, err := b.Runtime.MemoryUsage(ctx, id)
			return 0, err
		})},
		{"what has exited uses memory", "MemoryUsageIsTold", meters(func(*broken, context.Context, runtime.ContainerID) (int64, error) { return 1 << 20, nil })},
	}
}

func statsMutants() []mutant {
	one := func(change func(st *stats.Container)) func(*broken) {
		return func(b *broken) {
			b.stats = func(b *broken, ctx context.Context, id runtime.ContainerID) (*stats.Container, error) {
				st, err := b.Runtime.ContainerStats(ctx, id)
				if err == nil {
					change(st)
				}
				return st, err
			}
		}
	}
	all := func(change func(pods []stats.Pod) []stats.Pod) func(*broken) {
		return func(b *broken) {
			b.all = func(b *broken, ctx context.Context) ([]stats.Pod, error) {
				pods, err := b.Runtime.ListStats(ctx)
				return change(pods), err
			}
		}
	}
	return []mutant{
		{"stats of nobody", "StatsOfOneContainer StatsNeedARunningContainer", func(b *broken) {
			b.stats = func(*broken, context.Context, runtime.ContainerID) (*stats.Container, error) {
				return &stats.Container{}, nil
			}
		}},
		{"CPU time falls", "StatsOfOneContainer", one(func(st *stats.Container) { st.CPU.UsageNanoseconds = 1<<62 - st.CPU.UsageNanoseconds })},
		{"measured in the future", "StatsOfOneContainer", one(func(st *stats.Container) { st.Memory.At = st.Memory.At.Add(time.Hour) })},
		{"a working set of more than all", "StatsOfOneContainer", one(func(st *stats.Container) { st.Memory.WorkingSet *= 2 })},
		{"what has exited is not found", "StatsNeedARunningContainer", func(b *broken) {
			b.stats = func(b *broken, ctx context.Context, id runtime.ContainerID) (*stats.Container, error) {
				st, err := b.Runtime.ContainerStats(ctx, id)
				if err != nil {
					err = runtime.ErrNotFound
				}
				return st, err
			}
		}},
		{"a pod per container", "StatsOfAllPods", all(func(pods []stats.Pod) []stats.Pod {
			var out []stats.Pod
			for _, p := range pods {
				for _, c := range p.Containers {
					p.Containers = []stats.Container{c}
					out = append(out, p)
				}
			}
			return out
		})},
		{"in no order", "StatsOfAllPods", all(func(pods []stats.Pod) []stats.Pod {
			for i := range pods {
				slices.Reverse(pods[i].Containers)
			}
			return pods
		})},
		{"what has exited is among all", "StatsOfAllPods", all(func(pods []stats.Pod) []stats.Pod {
			for i := range pods {
				pods[i].Containers = append(pods[i].Containers, stats.Container{Name: "done"})
			}
			return pods
		})},
	}
}

func streamMutants() []mutant {
	tells := func(stream func(b *broken, u *url.URL, err error) (*url.URL, error)) func(*broken) {
		return func(b *broken) { b.stream = stream }
	}
	return []mutant{
		{"a path and no URL", "StreamURLs", tells(func(_ *broken, u *url.URL, err error) (*url.URL, error) {
			if err == nil {
				u = &url.URL{Path: u.Path}
			}
			return u, err
		})},
		{"always the same URL", "StreamURLs", tells(func(_ *broken, u *url.URL, err error) (*url.URL, error) {
			if err == nil {
				u.Path = "/"
			}
			return u, err
		})},
		{"whatever is asked for", "StreamsThatCannotBe", tells(func(_ *broken, u *url.URL, _ error) (*url.URL, error) { return u, nil })},
		{"what is gone is another error", "StreamsThatCannotBe", tells(func(_ *broken, u *url.URL, err error) (*url.URL, error) {
			if err != nil {
				err = errMutant
			}
			return u, err
		})},
	}
}

func imageMutants() []mutant {
	pulls := func(pull func(b *broken, ctx context.Context, image string, auth *runtime.ImageAuth) (string, error)) func(*broken) {
		return func(b *broken) { b.pull = pull }
	}
	return []mutant{
		{"every image is here", "ImageIDs PullOfAnAbsentImage", func(b *broken) {
			b.imageID = func(_ *broken, image string) (string, error) { return "sha256:" + image, nil }
		}},
		{"an absent image is an error", "ImageIDs", func(b *broken) {
			b.imageID = func(_ *broken, image string) (string, error) {
				if image == "localhost/nowhere:1" {
					return "", runtime.ErrNotFound
				}
				return "sha256:" + image, nil
			}
		}},
		{"another ID each time", "ImageIDs PullOfAnImage", func(b *broken) {
			n := 0
			b.imageID = func(*broken, string) (string, error) { n++; return fmt.Sprint(n), nil }
		}},
		{"a pull that cannot be is a success", "PullOfAnAbsentImage", pulls(func(*broken, context.Context, string, *runtime.ImageAuth) (string, error) { return "sha256:1", nil })},
		{"a pull's error tells the password", "PullOfAnAbsentImage", pulls(func(_ *broken, _ context.Context, _ string, auth *runtime.ImageAuth) (string, error) {
			if auth == nil {
				return "", errMutant
			}
			return "", fmt.Errorf("refused: %s", auth.Password)
		})},
		{"a pull goes on after ctx", "PullOfAnAbsentImage", pulls(func(*broken, context.Context, string, *runtime.ImageAuth) (string, error) { return "", errMutant })},
		{"credentials are lost", "PullOfAnImage", pulls(func(b *broken, ctx context.Context, image string, _ *runtime.ImageAuth) (string, error) {
			return (&broken{}).PullImage(ctx, image, nil)
		})},
	}
}
