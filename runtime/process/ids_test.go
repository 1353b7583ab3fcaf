// SPDX-License-Identifier: Apache-2.0

package process

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

func TestIDsAndFoldersSayTheSame(t *testing.T) {
	sandbox := sandboxKey{uid: "3f-uid.x_y", attempt: math.MaxUint32, salt: "0123abcd"}
	key := containerKey{sandbox: sandbox, name: "web-1-2", restart: math.MaxInt32, salt: "ffffffff"}
	assert.Equal(t, runtime.SandboxID("3f-uid.x_y:4294967295-0123abcd"), sandbox.id())
	assert.Equal(t, "process://3f-uid.x_y:4294967295-0123abcd:web-1-2-2147483647-ffffffff", key.id().String())
	assert.Equal(t, "3f-uid.x_y/sandbox-4294967295-0123abcd/web-1-2-2147483647-ffffffff", key.dir())

	back, err := runtime.ParseContainerID(key.id().String())
	require.NoError(t, err)
	got, ok := parseContainerID(back)
	assert.True(t, ok)
	assert.Equal(t, key, got)
	fromDir, ok := parseContainerDir(sandbox, key.base())
	assert.True(t, ok)
	assert.Equal(t, key, fromDir)
}

func TestStrangeIDs(t *testing.T) {
	for _, id := range []string{
		"", ":", "::", "a", "a:", "a:0", "a:0-", "a:0-123", "a:0-0123ABCD", "a:-1-0123abcd", "a:00-0123abcd", "a:4294967296-0123abcd",
		"..:0-0123abcd", ".x:0-0123abcd", "a/b:0-0123abcd", ":0-0123abcd", "a:0-0123abcg", "a b:0-0123abcd",
	} {
		_, ok := parseSandboxID(runtime.SandboxID(id))
		assert.False(t, ok, "%q", id)
	}
	for _, id := range []string{"", "c", "c-0", "c-0-", "c-0-123", "-0-0123abcd", "..-0-0123abcd", "c-+1-0123abcd", "c-01-0123abcd", "c-2147483648-0123abcd", "a/b-0-0123abcd"} {
		_, ok := parseContainerID(runtime.ContainerID{Runtime: name, ID: "uid:0-0123abcd:" + id})
		assert.False(t, ok, "%q", id)
	}
	_, ok := parseContainerID(runtime.ContainerID{Runtime: "other", ID: "uid:0-0123abcd:c-0-0123abcd"})
	assert.False(t, ok, "another runtime's")
}

// FuzzParseContainerID: whatever is accepted names a folder below the root, and
// is exactly the ID of that folder.
func FuzzParseContainerID(f *testing.F) {
	f.Add("uid:0-0123abcd:c-0-0123abcd")
	f.Add("../../x:0-0123abcd:c-0-0123abcd")
	f.Add("a:b:0-0123abcd:-0-0123abcd")
	f.Fuzz(func(t *testing.T, id string) {
		key, ok := parseContainerID(runtime.ContainerID{Runtime: name, ID: id})
		if !ok {
			return
		}
		require.Equal(t, id, key.id().ID)
		require.True(t, filepath.IsLocal(key.dir()))
		require.Len(t, strings.Split(key.dir(), "/"), 3)
	})
}
