// SPDX-License-Identifier: Apache-2.0

package loglinks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

func TestNamesAreTheKubelets(t *testing.T) {
	id := strings.Repeat("0a", 32)
	assert.Equal(t, "web_default_main-"+id+".log", linkName("web", "default", "main", id))
	long := linkName(strings.Repeat("p", 253), "default", "main", id)
	assert.Len(t, long, 255)
	assert.True(t, strings.HasSuffix(long, ".log"))
	for _, bad := range []string{"", "..", "a/b", "../../etc/cron.d/x", "a\\b", "a\x00", "a b", "a\n"} {
		if bad != ".." { // as a part, it leads nowhere
			assert.Empty(t, linkName("web", "default", "main", bad), "%q", bad)
			assert.Empty(t, linkName(bad, "default", "main", id), "%q", bad)
		}
	}
	assert.Equal(t, ".._.._..-...log", linkName("..", "..", "..", ".."), "no folder")
}

func TestLinksOfAPod(t *testing.T) {
	container := func(name, id, log string) runtime.ContainerStatus {
		return runtime.ContainerStatus{Name: name, ID: runtime.ContainerID{ID: id}, LogPath: log}
	}
	status := &runtime.PodStatus{Namespace: "ns", Name: "web", UID: "u_1", Containers: []runtime.ContainerStatus{
		container("main", "b", "/logs/ns_web_u_1/main/1.log"), container("main", "a", "/logs/ns_web_u_1/main/0.log"),
		container("silent", "c", ""), container("away", "d", "/etc/shadow"), container("up", "e", "/logs/../etc/ns_web_u_1/x/0.log"),
		container("short", "f", "/logs/0.log"), container("side", "../g", "/logs/ns_web_u_1/side/0.log"),
	}}
	assert.Equal(t, []link{
		{"web_ns_main-b.log", "/logs/ns_web_u_1/main/1.log"}, {"web_ns_main-a.log", "/logs/ns_web_u_1/main/0.log"},
	}, linksOf("/logs", status))
	uid, ok := uidOf("/logs", "/logs/ns_web_u_1/main/1.log")
	assert.True(t, ok)
	assert.EqualValues(t, "u_1", uid)
}

func TestChanges(t *testing.T) {
	const log, other = "/logs/ns_web_1/main/0.log", "/logs/ns_web_1/main/1.log"
	one := map[types.UID][]link{"1": {{"a.log", log}}}
	for name, tc := range map[string]struct {
		have   []present
		wanted map[types.UID][]link
		remove []string
		create []link
	}{
		"a new container":                           {wanted: one, create: []link{{"a.log", log}}},
		"nothing to do":                             {wanted: one, have: []present{{link{"a.log", log}, false}}},
		"a log that is being rotated":               {wanted: one, have: []present{{link{"a.log", log}, true}}},
		"a container that is gone":                  {wanted: one, have: []present{{link{"a.log", log}, false}, {link{"b.log", other}, false}}, remove: []string{"b.log"}},
		"a pod that is gone, with its log":          {have: []present{{link{"a.log", log}, true}}, remove: []string{"a.log"}},
		"a pod of an earlier agent":                 {have: []present{{link{"a.log", log}, false}}},
		"a pod without containers":                  {wanted: map[types.UID][]link{"1": nil}, have: []present{{link{"a.log", log}, false}}, remove: []string{"a.log"}},
		"a link to another log":                     {wanted: one, have: []present{{link{"a.log", other}, false}}, remove: []string{"a.log"}, create: []link{{"a.log", log}}},
		"a link of another program stays":           {have: []present{{link{"x.log", "/var/lib/docker/x.log"}, true}}},
		"a file of the name is not replaced":        {wanted: one, have: []present{{link{"a.log", ""}, false}}},
		"a foreign link of the name is not either":  {wanted: one, have: []present{{link{"a.log", "/etc/passwd"}, false}}},
		"a relative link is not one of ours":        {have: []present{{link{"x.log", "../pods/ns_web_1/main/0.log"}, true}}},
		"a link that leaves the logs is not either": {have: []present{{link{"x.log", "/logs/../etc/x/y"}, true}}},
	} {
		remove, create := changes("/logs", tc.have, tc.wanted)
		assert.Equal(t, tc.remove, remove, name)
		assert.Equal(t, tc.create, create, name)
	}
}
