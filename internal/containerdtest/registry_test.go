// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newRegistry(t *testing.T) *Registry {
	t.Helper()
	busybox := filepath.Join(t.TempDir(), "busybox")
	require.NoError(t, os.WriteFile(busybox, []byte("#!/bin/sh\necho busybox; echo cat; echo ls\n"), 0o700))
	return StartRegistry(t, &Instance{binaries: binaries{busybox: busybox}}, Image{Name: "a/b:1"})
}

// get fetches path and returns the result.
func get(t *testing.T, r *Registry, path string, edit func(*http.Request)) (*http.Response, []byte, error) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Host+"/v2/"+path, nil)
	require.NoError(t, err)
	if edit != nil {
		edit(q)
	}
	a, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	return a, body, err
}

// layerPath is where the only layer of a/b:1 is.
func layerPath(t *testing.T, r *Registry) string {
	t.Helper()
	_, body, err := get(t, r, "a/b/manifests/1", nil)
	require.NoError(t, err)
	var m struct{ Layers []struct{ Digest string } }
	require.NoError(t, json.Unmarshal(body, &m))
	return "a/b/blobs/" + m.Layers[0].Digest
}

func TestRegistryServes(t *testing.T) {
	r := newRegistry(t)
	assert.Equal(t, r.Host+"/a/b:1", r.Ref("a/b:1"))
	byTag, manifest, err := get(t, r, "a/b/manifests/1", nil)
	require.NoError(t, err)
	assert.Equal(t, manifestType, byTag.Header.Get("Content-Type"))
	assert.Equal(t, r.Digest("a/b:1"), byTag.Header.Get("Docker-Content-Digest"))
	_, same, err := get(t, r, "a/b/manifests/"+r.Digest("a/b:1"), nil)
	require.NoError(t, err)
	assert.Equal(t, manifest, same)
	path := layerPath(t, r)
	_, layer, err := get(t, r, path, nil)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(path, digest(layer)))
	for _, absent := range []string{"a/b/manifests/2", "b/manifests/1", "a/b/blobs/sha256:0", "x"} {
		a, _, err := get(t, r, absent, nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusNotFound, a.StatusCode, absent)
	}
	layers := r.Layers()
	require.Len(t, layers, 1)
	assert.EqualValues(t, len(layer), layers[0].Sent)
}

func TestRegistryMisbehaves(t *testing.T) {
	r := newRegistry(t)
	path := layerPath(t, r)
	_, layer, err := get(t, r, path, nil)
	require.NoError(t, err)
	status := func(path string, edit func(*http.Request)) int {
		a, _, _ := get(t, r, path, edit)
		return a.StatusCode
	}

	r.Behave(Behaviour{Unavailable: 1})
	assert.Equal(t, []int{503, 200}, []int{status(path, nil), status(path, nil)})
	r.Behave(Behaviour{Username: "u", Password: "p"})
	assert.Equal(t, 401, status(path, nil))
	assert.Equal(t, 401, status(path, func(q *http.Request) { q.SetBasicAuth("u", "q") }))
	assert.Equal(t, 200, status(path, func(q *http.Request) { q.SetBasicAuth("u", "p") }))
	r.Behave(Behaviour{Redirect: "s=1", Expired: true})
	assert.Equal(t, 403, status(path, nil))
	r.Behave(Behaviour{Cuts: 1})
	_, part, err := get(t, r, path, nil)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, layer[:len(layer)/2], part)
	_, whole, err := get(t, r, path, nil)
	require.NoError(t, err)
	assert.Equal(t, layer, whole)
	r.Behave(Behaviour{Corrupt: true})
	_, other, err := get(t, r, path, nil)
	require.NoError(t, err)
	assert.Len(t, other, len(layer))
	assert.NotEqual(t, digest(layer), digest(other))
}

func TestRegistryHolds(t *testing.T) {
	r := newRegistry(t)
	path := layerPath(t, r)
	hold := make(chan struct{})
	r.Behave(Behaviour{Hold: hold})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Host+"/v2/"+path, nil)
	require.NoError(t, err)
	a, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer a.Body.Close()
	_, err = io.CopyN(io.Discard, a.Body, a.ContentLength/2)
	require.NoError(t, err)
	assert.False(t, r.Layers()[0].Ended)
	cancel()
	require.NoError(t, retry(t.Context(), func() error {
		if l := r.Layers()[0]; !l.Ended || !l.Abandoned {
			return io.ErrNoProgress
		}
		return nil
	}))
	close(hold)
	_, _, err = get(t, r, path, nil)
	assert.NoError(t, err, "nothing holds it any more")
}
