// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime"
)

// vendor is a custom node with its own generator, admission, hooks and keyring.
type vendor struct {
	*runtime.DefaultGenerator

	mu    sync.Mutex
	hooks []string
	made  []runtime.ContainerSpec
}

// Container implements runtime.Generator.
func (v *vendor) Container(ctx context.Context, pod *v1.Pod, ref runtime.Ref, in runtime.ContainerInput) (runtime.ContainerSpec, func(), error) {
	spec, cleanup, err := v.DefaultGenerator.Container(ctx, pod, ref, in)
	spec.Env = append(spec.Env, runtime.EnvVar{Name: "GATEWAY", Value: "17"})
	v.mu.Lock()
	defer v.mu.Unlock()
	v.made = append(v.made, spec)
	return spec, cleanup, err
}

// RunHook implements runtime.HookRunner.
func (v *vendor) RunHook(_ context.Context, call runtime.HookCall) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hooks = append(v.hooks, call.Pod.Name)
	return nil
}

func (v *vendor) admit(pod *v1.Pod) []admission.Failure {
	if pod.Labels["signed"] == "" {
		return []admission.Failure{{Reason: "NotSigned", Message: "nobody has signed it"}}
	}
	return nil
}

func signed(p *v1.Pod) { p.Labels = map[string]string{"signed": "yes"} }

// The author's own parts replace the parts of the agent.
func TestGeneratorHooksKeyringAndAdmissionOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s := &vendor{}, newShelf()
		s.registry["localhost/c:1"], s.only = "c", "vendor"
		admit := v.admit
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) {
			o.Runtime, o.Hooks, o.Admit = shelved{o.Runtime.(*nodetest.Runtime), s}, v, admit
			o.Generator = func(own *runtime.DefaultGenerator) runtime.Generator {
				v.DefaultGenerator = own
				return v
			}
			o.Keyring = func(context.Context, *v1.Pod, string) ([]runtime.ImageAuth, error) {
				return []runtime.ImageAuth{{Username: "vendor"}}, nil
			}
		}})
		hooked := nodetest.Pod("hooked", nodetest.Container("c"), signed, func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}}
		})
		n.Apply(hooked, nodetest.Pod("stranger", nodetest.Container("c")))
		pass(n, 10*time.Second)
		require.Equal(t, v1.PodRunning, n.Status("hooked").Phase)
		require.Equal(t, []string{"hooked"}, v.hooks)
		require.Len(t, v.made, 1)
		require.Contains(t, v.made[0].Env, runtime.EnvVar{Name: "GATEWAY", Value: "17"})
		require.Equal(t, []string{"localhost/c:1 vendor"}, s.now().pulls)
		refused := n.Status("stranger")
		require.Equal(t, v1.PodFailed, refused.Phase)
		require.Equal(t, "NotSigned", refused.Reason)
		require.True(t, strings.HasSuffix(refused.Message, "nobody has signed it"), refused.Message)

		admit = func(*v1.Pod) []admission.Failure { return []admission.Failure{{Reason: "No", Message: "nobody"}} }
		n.RestartAgent()
		pass(n, 10*time.Second)
		require.Equal(t, v1.PodRunning, n.Status("hooked").Phase, "it ran before")
	})
}
