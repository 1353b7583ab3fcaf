// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
)

func TestCheckJudgesImages(t *testing.T) {
	const image = "localhost/c:1"
	for name, c := range map[string]struct {
		policy v1.PullPolicy
		event  nodetest.ImageEvent
		want   string
	}{
		"an image is pulled":                      {v1.PullIfNotPresent, nodetest.ImageEvent{What: nodetest.ImagePulled}, ""},
		"the registry is away":                    {v1.PullIfNotPresent, nodetest.ImageEvent{What: nodetest.ImageRefused}, ""},
		"an unused image is removed":              {v1.PullIfNotPresent, nodetest.ImageEvent{What: nodetest.ImageRemoved}, ""},
		"an image is pulled at each start":        {v1.PullAlways, nodetest.ImageEvent{What: nodetest.ImageAgain}, ""},
		"an image is pulled that is here":         {v1.PullIfNotPresent, nodetest.ImageEvent{What: nodetest.ImageAgain}, "is pulled, and has been here since"},
		"an image in use is removed":              {v1.PullIfNotPresent, nodetest.ImageEvent{What: nodetest.ImageRemoved, Users: []string{"a"}}, "is removed, and in use by [a]"},
		"a container is created without an image": {v1.PullIfNotPresent, nodetest.ImageEvent{What: nodetest.ImageMissing}, "which is not here"},
	} {
		t.Run(name, func(t *testing.T) {
			var h tale
			h.told(0, nodetest.Pod("p", nodetest.Container("c"), func(p *v1.Pod) { p.Spec.Containers[0].ImagePullPolicy = c.policy }))
			c.event.At, c.event.Image = sec(1), image
			h.h.Images = []nodetest.ImageEvent{c.event}
			if err := nodetest.Check(h.h); c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}
