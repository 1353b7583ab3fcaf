// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

func TestObjects(t *testing.T) {
	docs, err := manifest.Objects([]byte("kind: ConfigMap\ndata: {a: \"1\", date: 2026-01-02, gone: null}\n---\n---\nkind: Secret\n"), 1<<10)
	require.NoError(t, err)
	require.Len(t, docs, 2)
	assert.JSONEq(t, `{"kind": "ConfigMap", "data": {"a": "1", "date": "2026-01-02"}}`, string(docs[0]))
	assert.JSONEq(t, `{"kind": "Secret"}`, string(docs[1]))
}

func TestObjectsThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":     {"\n", "empty"},
		"too large": {"kind: Secret # " + string(make([]byte, 1<<10)), "1024"},
		"syntax":    {"kind: Secret\ndata: {a: hunter2\n", "2:1: not valid YAML"},
		"duplicate": {"kind: Secret\nkind: hunter2\n", "2:1: kind: duplicate key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := manifest.Objects([]byte(c.text), 1<<10)
			require.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
	_, err := manifest.Objects([]byte("# nothing\n"), 1<<10)
	require.ErrorIs(t, err, manifest.ErrEmpty)
}
