// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestResolve: the file is mounted behind the folder of the system, in the place of the host's file, and before the
// pod's own mounts, which cover it.
func TestResolve(t *testing.T) {
	file := Bind{From: "/run/file", To: "/etc/resolv.conf", File: true, ReadOnly: true}
	usr, etc := Bind{From: "/usr", To: "/usr"}, Bind{From: "/etc", To: "/etc"}
	host := Bind{From: "/etc/resolv.conf", To: "/etc/resolv.conf", File: true}
	volume := Bind{From: "/volumes/a", To: "/etc"}
	own := Bind{From: "/volumes/b", To: "/etc/resolv.conf", File: true}
	for name, tt := range map[string]struct{ mounts, want []Bind }{
		"folders of the system":          {[]Bind{usr, etc}, []Bind{usr, etc, file}},
		"an image":                       {[]Bind{host}, []Bind{file}},
		"a volume over the folder":       {[]Bind{usr, etc, volume}, []Bind{usr, etc, file, volume}},
		"a volume over that of an image": {[]Bind{host, volume}, []Bind{file, volume}},
		"a file of the pod":              {[]Bind{usr, etc, own}, []Bind{usr, etc, file, own}},
	} {
		r := Root{Mounts: tt.mounts}
		r.Resolve("/run/file")
		assert.Equal(t, tt.want, r.Mounts, name)
	}
}
