// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
	"github.com/keelson-dev/keelson/internal/casetest"
)

// lasting returns how many devices a pod holds at the same time, by counting: a second, simple
// description of the reuse of devices.
func lasting(text string) (total int) {
	spare := 0 // devices that a container has left behind
	for part := range strings.FieldsSeq(text) {
		var kind string
		var n int
		fmt.Sscanf(strings.Replace(part, ":", " ", 1), "%s %d", &kind, &n)
		reused := min(spare, n)
		total += n - reused
		if kind == "i" {
			spare += n - reused
		} else {
			spare -= reused
		}
	}
	return total
}

// Random pods come, choose, end and lose devices. No device has two holders at the same time, a pod is
// admitted if and only if enough devices are free, and a released device is free.
func TestNoDeviceTwice(t *testing.T) {
	for seed := range casetest.Rounds[uint64](500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := ledger.New()
		pods := map[types.UID]*v1.Pod{}
		var healthy []string
		report := func() {
			var all []ledger.Device
			healthy = nil
			for _, id := range strings.Fields("a b c d e f") {
				d := ledger.Device{ID: id, Healthy: rng.IntN(6) > 0}
				if rng.IntN(8) == 0 {
					continue // unplugged
				}
				if d.Healthy {
					healthy = append(healthy, id)
				}
				all = append(all, d)
			}
			l.Report(gpu, all)
		}
		report()
		for step := range 40 {
			switch rng.IntN(6) {
			case 0:
				report()
			case 1:
				for uid := range pods {
					require.Equal(t, len(l.Of(uid)) > 0, l.Release(uid))
					delete(pods, uid)
					break
				}
			case 2:
				for _, p := range pods {
					for _, h := range l.Pending(p.UID) {
						if choice, ok := l.Choice(h); ok {
							rng.Shuffle(len(choice.Available), func(i, j int) {
								choice.Available[i], choice.Available[j] = choice.Available[j], choice.Available[i]
							})
							_ = l.Prefer(p, h.Slot, choice.Available[:choice.Size])
						}
						if rng.IntN(2) == 0 {
							l.Commit(h.Slot, nil)
						}
					}
				}
			default:
				text := randomPod(rng)
				p := pod(fmt.Sprint(step), text)
				used := inUse(t, l, pods)
				free := 0
				for _, id := range healthy {
					if !used[id] {
						free++
					}
				}
				err := l.Reserve(p)
				require.Equal(t, lasting(text) <= free, err == nil, "seed %d step %d: %q with %d free: %v", seed, step, text, free, err)
				if err == nil {
					pods[p.UID] = p
				}
			}
			inUse(t, l, pods)
		}
	}
}

func randomPod(rng *rand.Rand) string {
	var parts []string
	for range rng.IntN(3) {
		parts = append(parts, fmt.Sprintf("%c:%d", "is"[rng.IntN(2)], rng.IntN(3)))
	}
	for range 1 + rng.IntN(2) {
		parts = append(parts, fmt.Sprintf("r:%d", rng.IntN(3)))
	}
	return strings.Join(parts, " ")
}

// inUse returns all held devices and checks that no two containers that run at the same time share a
// device.
func inUse(t *testing.T, l *ledger.Ledger, pods map[types.UID]*v1.Pod) map[string]bool {
	t.Helper()
	owner := map[string]types.UID{}
	for _, h := range l.Holdings() {
		require.Contains(t, pods, h.Pod)
		for _, id := range h.IDs() {
			if other, taken := owner[id]; taken {
				require.Equal(t, other, h.Pod, "device %s", id)
			}
			owner[id] = h.Pod
		}
	}
	for uid := range pods {
		lasting := map[string]string{} // device to the container that keeps it
		for _, h := range l.Of(uid) {
			ids := h.IDs()
			require.Len(t, slices.Compact(slices.Clone(ids)), len(ids), "twice in a container")
			for _, id := range ids {
				require.NotContains(t, lasting, id, "%s and %s of pod %s", lasting[id], h.Container, uid)
				if h.Container[0] != 'i' {
					lasting[id] = h.Container
				}
			}
		}
	}
	all := map[string]bool{}
	for id := range owner {
		all[id] = true
	}
	return all
}
