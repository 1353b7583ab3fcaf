// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/statusmanager"
)

func TestContainerTransitions(t *testing.T) {
	onCodes := func(action v1.ContainerRestartRuleAction, codes ...int32) podOption {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyNever)
			p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
				Action: action,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
					Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: codes,
				},
			}}
		}
	}
	own := func(rp v1.ContainerRestartPolicy) podOption {
		return func(p *v1.Pod) { p.Spec.Containers[0].RestartPolicy = &rp }
	}
	const restart, all = v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers
	tests := []struct {
		name  string
		pod   *v1.Pod
		code  int32
		again bool
	}{
		{"Always", testPod("a"), 0, true},
		{"no policy is Always", testPod("a", policy("")), 0, true},
		{"OnFailure after failure", testPod("a", policy(v1.RestartPolicyOnFailure)), 1, true},
		{"OnFailure after success", testPod("a", policy(v1.RestartPolicyOnFailure)), 0, false},
		{"Never", testPod("a", policy(v1.RestartPolicyNever)), 1, false},
		{"own policy Always", testPod("a", policy(v1.RestartPolicyNever), own(v1.ContainerRestartPolicyAlways)), 0, true},
		{"own policy Never", testPod("a", own(v1.ContainerRestartPolicyNever)), 1, false},
		{"rule matches", testPod("a", policy(v1.RestartPolicyNever), onCodes(restart, 42)), 42, true},
		{"rule does not match", testPod("a", policy(v1.RestartPolicyAlways), onCodes(restart, 42)), 41, false},
		{"all restart", testPod("a", policy(v1.RestartPolicyNever), onCodes(all, 42)), 41, true},
	}
	for _, tc := range tests {
		for _, next := range []v1.ContainerStatus{running("main"), waiting("main", "CrashLoopBackOff")} {
			t.Run(tc.name, func(t *testing.T) {
				m := newManager(t, statusmanager.Options{})
				_, err := m.SetPodStatus(tc.pod, status(v1.PodRunning, exited("main", tc.code)))
				require.NoError(t, err)
				_, err = m.SetPodStatus(tc.pod, status(v1.PodRunning, next))
				got, _ := m.GetPodStatus("a")
				if tc.again {
					require.NoError(t, err)
					assert.Equal(t, next.State, got.ContainerStatuses[0].State)
					return
				}
				require.ErrorAs(t, err, new(*statusmanager.TransitionError))
				require.ErrorContains(t, err, "container main stays terminated")
				kept := got.ContainerStatuses[0]
				assert.NotNil(t, kept.State.Terminated)
				assert.False(t, kept.Ready)
				assert.False(t, *kept.Started)
			})
		}
	}
}

func TestInitAndEphemeralTransitions(t *testing.T) {
	pod := testPod("a", initContainers("init"), sidecar("proxy"), policy(v1.RestartPolicyNever))
	first := withInit(status(v1.PodRunning, running("main")), exited("init", 0), exited("proxy", 0))
	first.EphemeralContainerStatuses = []v1.ContainerStatus{exited("debug", 0)}
	second := withInit(status(v1.PodRunning, running("main")), running("init"), running("proxy"))
	second.EphemeralContainerStatuses = []v1.ContainerStatus{running("debug")}
	m := newManager(t, statusmanager.Options{})
	_, err := m.SetPodStatus(pod, first)
	require.NoError(t, err)
	_, err = m.SetPodStatus(pod, second)
	transition := &statusmanager.TransitionError{}
	require.ErrorAs(t, err, &transition)
	var names []string
	for _, c := range transition.Clamps {
		names = append(names, c.Container)
	}
	assert.Equal(t, []string{"init", "debug"}, names, "a sidecar restarts whatever the policy")
}

// A pod that lost its sandbox runs its init containers again, whatever its policy, which is no illegal transition. The
// phase stays, without an error. A pod without containers left to run, or with a running container, cannot start over.
func TestInitRunsAgainInANewSandbox(t *testing.T) {
	const never, onFailure = v1.RestartPolicyNever, v1.RestartPolicyOnFailure
	for _, tc := range []struct {
		name   string
		policy v1.RestartPolicy
		mains  [2]v1.ContainerStatus // of main before and after
		legal  bool
	}{
		{"one that ran, to be run again", onFailure, [2]v1.ContainerStatus{running("main"), exited("main", 137)}, true},
		{"one that waits for init", onFailure, [2]v1.ContainerStatus{exited("main", 1), waiting("main", "PodInitializing")}, true},
		{"one that never ran", never, [2]v1.ContainerStatus{waiting("main", "ContainerCreating"), waiting("main", "PodInitializing")}, true},
		{"one that runs", onFailure, [2]v1.ContainerStatus{running("main"), running("main")}, false},
		{"one that has run for good", onFailure, [2]v1.ContainerStatus{running("main"), exited("main", 0)}, false},
		{"one that is never restarted", never, [2]v1.ContainerStatus{running("main"), exited("main", 137)}, false},
		{"one whose end is denied", never, [2]v1.ContainerStatus{exited("main", 0), waiting("main", "PodInitializing")}, false},
	} {
		for _, again := range []v1.ContainerStatus{running("init"), waiting("init", "PodInitializing")} {
			t.Run(tc.name, func(t *testing.T) {
				pod := testPod("a", initContainers("init"), policy(tc.policy))
				m := newManager(t, statusmanager.Options{})
				_, err := m.SetPodStatus(pod, withInit(status(v1.PodRunning, tc.mains[0]), exited("init", 0)))
				require.NoError(t, err)
				_, err = m.SetPodStatus(pod, withInit(status(v1.PodPending, tc.mains[1]), again))
				got, _ := m.GetPodStatus("a")
				assert.Equal(t, v1.PodRunning, got.Phase)
				if tc.legal {
					require.NoError(t, err)
					assert.Equal(t, again.State, got.InitContainerStatuses[0].State)
					return
				}
				require.ErrorContains(t, err, "container init stays terminated")
				require.ErrorContains(t, err, "phase stays Running, not Pending")
			})
		}
	}
}

func TestPhaseTransitions(t *testing.T) {
	phases := []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed, v1.PodUnknown}
	allowed := map[v1.PodPhase][]v1.PodPhase{
		v1.PodPending:   phases,
		v1.PodRunning:   {v1.PodRunning, v1.PodSucceeded, v1.PodFailed, v1.PodUnknown},
		v1.PodSucceeded: {v1.PodSucceeded},
		v1.PodFailed:    {v1.PodFailed},
		v1.PodUnknown:   phases,
	}
	for from, to := range allowed {
		for _, phase := range phases {
			t.Run(string(from+" to "+phase), func(t *testing.T) {
				m := newManager(t, statusmanager.Options{})
				set := func(pod *v1.Pod, p v1.PodPhase, reason string) (v1.PodPhase, error) {
					s := status(p, exited("main", 1))
					s.Reason = reason
					_, err := m.SetPodStatus(pod, s)
					got, _ := m.GetPodStatus(pod.UID)
					if got.Phase == from && from != phase {
						assert.Equal(t, "first", got.Reason, "it belongs to the phase")
					}
					return got.Phase, err
				}
				_, err := set(testPod("a"), from, "first")
				require.NoError(t, err)
				got, err := set(testPod("a"), phase, "second")
				if contains(to, phase) {
					require.NoError(t, err)
					assert.Equal(t, phase, got)
				} else {
					require.ErrorContains(t, err, "phase stays "+string(from))
					assert.Equal(t, from, got)
				}
				_, err = set(testPod("s", static), from, "first")
				require.NoError(t, err)
				got, err = set(testPod("s", static), phase, "second")
				require.NoError(t, err, "a static pod comes back under its UID")
				assert.Equal(t, phase, got)
			})
		}
	}
}

func contains(list []v1.PodPhase, p v1.PodPhase) bool {
	for _, other := range list {
		if other == p {
			return true
		}
	}
	return false
}

func TestTerminatePod(t *testing.T) {
	plain, withTwo := testPod("a"), testPod("a", initContainers("one", "two"))
	lost := int32(137)
	tests := []struct {
		name  string
		pod   *v1.Pod
		given v1.PodStatus
		phase v1.PodPhase
		main  *int32 // exit code; nil: not ended
		inits []*int32
	}{
		{"running is lost", plain, status(v1.PodRunning, running("main")), v1.PodFailed, &lost, nil},
		{"waiting is lost, too", plain, status(v1.PodPending, waiting("main", "ContainerCreating")), v1.PodFailed, &lost, nil},
		{"ended stays", plain, status(v1.PodSucceeded, exited("main", 0)), v1.PodSucceeded, new(int32), nil},
		{"never initialised", withTwo, withInit(status(v1.PodPending, waiting("main", "")), running("one"), waiting("two", "")),
			v1.PodFailed, nil, []*int32{&lost, nil}},
		{"init not begun", withTwo, withInit(status(v1.PodPending, waiting("main", "")), waiting("one", ""), waiting("two", "")),
			v1.PodFailed, nil, []*int32{&lost, nil}},
		{"initialised", withTwo, withInit(status(v1.PodRunning, waiting("main", "")), exited("one", 0), exited("two", 0)),
			v1.PodFailed, &lost, []*int32{new(int32), new(int32)}},
		{"second runs", withTwo, withInit(status(v1.PodPending, waiting("main", "")), waiting("one", ""), running("two")),
			v1.PodFailed, nil, []*int32{&lost, &lost}},
		{"static keeps its phase", testPod("a", static), status(v1.PodRunning, running("main")), v1.PodRunning, &lost, nil},
	}
	code := func(s v1.ContainerStatus) *int32 {
		if s.State.Terminated == nil {
			return nil
		}
		return &s.State.Terminated.ExitCode
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for _, known := range []string{"set", "in the pod"} {
				m, pod := newManager(t, statusmanager.Options{}), with(tc.pod)
				if known == "set" {
					_, err := m.SetPodStatus(pod, tc.given)
					require.NoError(t, err)
				} else {
					pod.Status = tc.given
				}
				_, err := m.TerminatePod(pod)
				require.NoError(t, err)
				got, _ := m.GetPodStatus("a")
				assert.Equal(t, tc.phase, got.Phase, known)
				assert.Equal(t, tc.main, code(got.ContainerStatuses[0]), known)
				for i, want := range tc.inits {
					assert.Equal(t, want, code(got.InitContainerStatuses[i]), known)
				}
				assert.Equal(t, v1.ConditionFalse, conditionStatus(got, v1.PodReady), known)
			}
		})
	}
}
