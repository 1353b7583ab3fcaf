// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/conceal"
)

// secretsOf returns the texts of a container's spec that no error, event or status may show: the
// values of its variables, and the words of command and args that contain such values. Values of
// fieldRef and resourceFieldRef are not secret, because the pod's own status shows them.
func secretsOf(spec *ContainerSpec) *conceal.Values {
	secrets := secretVariables(spec.Container, spec.Env)
	if c := spec.Container; c != nil {
		for _, list := range []struct{ written, expanded []string }{{c.Command, spec.Command}, {c.Args, spec.Args}} {
			for i := range min(len(list.written), len(list.expanded)) {
				secrets.Expanded(list.written[i], list.expanded[i])
			}
		}
	}
	return secrets
}

// secretVariables returns the values of the variables of c that may be secret: literal values, and
// values from ConfigMaps, Secrets and files. A variable that is not in c comes from envFrom, or
// without envFrom from a Service.
func secretVariables(c *v1.Container, vars []EnvVar) *conceal.Values {
	secrets := &conceal.Values{}
	for _, v := range vars {
		if c == nil || isSecretVariable(c, v.Name) {
			secrets.Variable(v.Name, v.Value)
		}
	}
	return secrets
}

func isSecretVariable(c *v1.Container, name string) bool {
	i := slices.IndexFunc(c.Env, func(v v1.EnvVar) bool { return v.Name == name })
	if i < 0 {
		return len(c.EnvFrom) > 0
	}
	from := c.Env[i].ValueFrom
	return from == nil || from.FieldRef == nil && from.ResourceFieldRef == nil
}
