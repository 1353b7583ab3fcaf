// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/restartrule"
	"github.com/keelson-dev/keelson/runtime"
)

// TestShouldRestart has one row for each line of the decision, and for each
// policy and rule.
func TestShouldRestart(t *testing.T) {
	const never, onFailure, always = v1.RestartPolicyNever, v1.RestartPolicyOnFailure, v1.RestartPolicyAlways
	for _, c := range []struct {
		name      string
		policy    v1.RestartPolicy
		container string
		status    string // empty: none
		want      bool
	}{
		{"no instance", never, "main a", "", true},
		{"running", always, "main a", "a running", false},
		{"created", never, "main a", "a created", true},
		{"unknown", onFailure, "main a", "a unknown", true},
		{"unknown, Never", never, "main a", "a unknown", false},
		{"unknown, its own Never, rules cannot apply", always, "main a policy=Never rule=Restart/NotIn/7", "a unknown", false},

		{"Always, 0", always, "main a", "a exited 0", true},
		{"Always, 1", always, "main a", "a exited 1", true},
		{"OnFailure, 0", onFailure, "main a", "a exited 0", false},
		{"OnFailure, 1", onFailure, "main a", "a exited 1", true},
		{"Never, 1", never, "main a", "a exited 1", false},
		{"a policy nobody knows", "Sometimes", "main a", "a exited 0", true},

		{"own Always in a Never pod", never, "main a policy=Always", "a exited 0", true},
		{"own OnFailure in a Never pod, 0", never, "main a policy=OnFailure", "a exited 0", false},
		{"own OnFailure in a Never pod, 1", never, "main a policy=OnFailure", "a exited 1", true},
		{"own Never in an Always pod", always, "main a policy=Never", "a exited 1", false},

		{"In, matches", never, "main a policy=Never rule=Restart/In/3,5", "a exited 5", true},
		{"In, does not match", always, "main a policy=Never rule=Restart/In/3,5", "a exited 4", false},
		{"NotIn, matches", never, "main a policy=Never rule=Restart/NotIn/3,5", "a exited 0", true},
		{"NotIn, does not match", never, "main a policy=Never rule=Restart/NotIn/3,5", "a exited 3", false},
		{"the second rule matches", never, "main a policy=Never rule=Restart/In/3 rule=Restart/In/4", "a exited 4", true},
		{"RestartAllContainers is a restart too", never, "main a policy=Never rule=RestartAllContainers/In/3", "a exited 3", true},
		{"no match: the container's policy", never, "main a policy=OnFailure rule=Restart/In/3", "a exited 1", true},
		{"an action nobody knows", never, "main a policy=Never rule=Explode/In/3", "a exited 3", false},
		{"an operator nobody knows", never, "main a policy=Never rule=Restart/Near/3", "a exited 3", false},
		{"rules without a policy are void", never, "main a rule=Restart/In/3", "a exited 3", false},
		{"rules on an init container", never, "init a policy=Never rule=Restart/In/3", "a exited 3", true},

		{"out of memory with code 0 is a success of a regular container", onFailure, "main a", "a exited 0 OOMKilled", false},
		{"out of memory with code 0 is a failure of an init container", onFailure, "init a", "a exited 0 OOMKilled", true},
		{"with another code it keeps that", never, "init a policy=Never rule=Restart/In/1", "a exited 1 OOMKilled", true},
		{"such an init container exited with 137", never, "init a policy=Never rule=Restart/In/137", "a exited 0 OOMKilled", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := podOf(t, c.policy, c.container)
			ref, _ := runtime.Find(pod, "a")
			var status *runtime.ContainerStatus
			if c.status != "" {
				all, _ := observe(t, pod, c.status)
				status = all.Latest("a")
			}
			assert.Equal(t, c.want, runtime.ShouldRestart(pod, ref.Container(pod), status))

			deleted := podOf(t, c.policy, c.container, "deleted")
			assert.False(t, runtime.ShouldRestart(deleted, ref.Container(deleted), status), "in a deleted pod")
			if status != nil && status.State == runtime.StateExited {
				assert.Equal(t, c.want, restartrule.AfterExit(&deleted.Spec, ref.Container(deleted), status.ExitCode, status.Reason),
					"the policy does not change with the deletion")
			}
		})
	}
	t.Run("a rule without codes matches nothing", func(t *testing.T) {
		pod := podOf(t, never, "main a policy=Never rule=Restart/In/3")
		pod.Spec.Containers[0].RestartPolicyRules[0].ExitCodes = nil
		assert.False(t, restartrule.AfterExit(&pod.Spec, &pod.Spec.Containers[0], 3, ""))
	})
}
