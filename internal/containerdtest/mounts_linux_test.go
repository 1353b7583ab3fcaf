// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseMounts(t *testing.T) {
	const text = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
36 22 0:30 / /a\040b rw - tmpfs tmpfs rw
nonsense
37 22 0:4 net:[4026532] /run/netns/x rw shared:5 master:2 - nsfs nsfs rw
`
	assert.Equal(t, []mount{{"/", "ext4"}, {"/a b", "tmpfs"}, {"/run/netns/x", "nsfs"}}, parseMounts(text))
}
