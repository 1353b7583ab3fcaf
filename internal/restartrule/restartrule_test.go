// SPDX-License-Identifier: Apache-2.0

package restartrule_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/restartrule"
)

func TestMayRestartAll(t *testing.T) {
	never := new(v1.ContainerRestartPolicyNever)
	rules := []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestart}, {Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	all := v1.Container{RestartPolicy: never, RestartPolicyRules: rules}
	for name, spec := range map[string]*v1.PodSpec{
		"regular": {Containers: []v1.Container{{}, all}}, "init": {InitContainers: []v1.Container{all}},
	} {
		assert.True(t, restartrule.MayRestartAll(spec), name)
	}
	for name, c := range map[string]v1.Container{
		"only itself": {RestartPolicy: never, RestartPolicyRules: rules[:1]}, "without a policy": {RestartPolicyRules: rules},
	} {
		assert.False(t, restartrule.MayRestartAll(&v1.PodSpec{Containers: []v1.Container{c}}), name)
	}
}
