// SPDX-License-Identifier: Apache-2.0

package pullrecords_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/pullrecords"
)

const app = "registry.example/team/app:1"

var (
	own     = runtime.ImageAuth{Username: "edge", Password: "s3cret-canary", Secret: "shop/pull/1"}
	rotated = runtime.ImageAuth{Username: "edge", Password: "new", Secret: "shop/pull/1"}
	copied  = runtime.ImageAuth{Username: "edge", Password: "s3cret-canary", Secret: "blog/pull/2"}
	other   = runtime.ImageAuth{Username: "eve", Password: "s3cret-canary", Secret: "blog/pull/3"}
	ofNode  = runtime.ImageAuth{Username: "node", Password: "n"}
)

func open(t *testing.T, o pullrecords.Options) *pullrecords.Records {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	r, err := pullrecords.Open(o)
	require.NoError(t, err)
	return r
}

// pull records a pull of a name that refers to the image before.
func pull(t *testing.T, r *pullrecords.Records, name, before, id string, auth *runtime.ImageAuth, failure error) {
	t.Helper()
	end, err := r.Begin(name, before)
	require.NoError(t, err)
	require.NoError(t, end(id, auth, failure))
}

// mayUse reports whether a pod with these credentials may use an image.
func mayUse(t *testing.T, r *pullrecords.Records, name, id string, auths ...runtime.ImageAuth) bool {
	t.Helper()
	may, err := r.MayUse(name, id, func() []runtime.ImageAuth { return auths })
	require.NoError(t, err)
	return may
}

func TestWhoMayUseAnImage(t *testing.T) {
	dir := t.TempDir()
	r := open(t, pullrecords.Options{Dir: dir})
	pull(t, r, app, "", "id1", &own, nil)
	for range 2 {
		assert.True(t, mayUse(t, r, app, "id1", other, own))
		assert.True(t, mayUse(t, r, app, "id1", rotated), "the same Secret")
		assert.True(t, mayUse(t, r, app, "id1", copied), "the same credentials")
		assert.True(t, mayUse(t, r, "registry.example/team/app:2", "id1", own), "another tag")
		assert.True(t, mayUse(t, r, "registry.example/team/app@sha256:1", "id1", own), "a digest")
		assert.False(t, mayUse(t, r, app, "id1"))
		assert.False(t, mayUse(t, r, app, "id1", other))
		assert.False(t, mayUse(t, r, app, "id1", ofNode), "the node has not pulled it")
		assert.False(t, mayUse(t, r, "registry.example/mirror/app:1", "id1", own), "another repository")
		r = open(t, pullrecords.Options{Dir: dir}) // after a restart
	}
	pull(t, r, app, "id1", "id1", &ofNode, nil)
	assert.True(t, mayUse(t, r, app, "id1"), "the node's credentials are for all pods")
	pull(t, r, "hub/open", "", "id2", nil, nil)
	assert.True(t, mayUse(t, r, "hub/open", "id2", other), "pulled without credentials")

	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		require.NoError(t, err)
		assert.EqualValues(t, 0o600, info.Mode().Perm(), path)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.NotContains(t, string(raw), "canary")
		assert.NotContains(t, path, "pulling/", "each note has ended")
		return nil
	}))
}

func TestPolicies(t *testing.T) {
	for policy, want := range map[pullrecords.Policy][2]bool{
		"": {true, true}, pullrecords.NeverVerifyPreloadedImages: {true, true},
		pullrecords.NeverVerifyAllowlistedImages: {true, false}, pullrecords.AlwaysVerify: {false, false},
	} {
		o := pullrecords.Options{Policy: policy}
		if policy == pullrecords.NeverVerifyAllowlistedImages {
			o.Allowlist = []string{"registry.example/team/*", "registry.example/one"}
		}
		r := open(t, o)
		assert.Equal(t, want, [2]bool{mayUse(t, r, app, "id"), mayUse(t, r, "registry.example/teams/app", "id")}, policy)
		assert.Equal(t, want, [2]bool{mayUse(t, r, "registry.example/one:2", "id"), mayUse(t, r, "registry.example/one/more", "id")}, policy)
		pull(t, r, app, "id", "id", &own, nil)
		assert.Equal(t, want[0], mayUse(t, r, app, "id"), "%s: an image that was there before the pull", policy)
		assert.True(t, mayUse(t, r, app, "id", own))
		pull(t, r, app, "id", "id2", &own, nil)
		assert.False(t, mayUse(t, r, app, "id2"), "%s: the pull brought another image", policy)
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]pullrecords.Options{
		`policy "Never": want NeverVerifyPreloadedImages,`:                    {Policy: "Never"},
		"an allow list is only for the policy NeverVerifyAllowlistedImages":   {Allowlist: []string{"a.example/b"}},
		`allow list: "a.example/b:1": want a repository such as`:              {Policy: pullrecords.NeverVerifyAllowlistedImages, Allowlist: []string{"a.example/b:1"}},
		`allow list: "a.example/*/b": want a repository such as`:              {Policy: pullrecords.NeverVerifyAllowlistedImages, Allowlist: []string{"a.example/*/b"}},
		`allow list: "app": want a repository such as registry.example/team/`: {Policy: pullrecords.NeverVerifyAllowlistedImages, Allowlist: []string{"app"}},
		"mkdir":                   {Dir: "/proc/none"},
		"Options.Dir is required": {},
	} {
		_, err := pullrecords.Open(o)
		require.ErrorContains(t, err, "pullrecords: ")
		assert.ErrorContains(t, err, want)
	}
}

// Each way in which a pull can end without a record leaves an image that came with it for nobody.
func TestPullsWithoutARecord(t *testing.T) {
	dir := t.TempDir()
	r := open(t, pullrecords.Options{Dir: dir})
	pull(t, r, app, "", "", nil, errors.New("401"))
	assert.True(t, mayUse(t, r, app, "loaded"), "a pull that failed has brought nothing")

	_, err := r.Begin(app, "loaded") // the agent is killed
	require.NoError(t, err)
	r = open(t, pullrecords.Options{Dir: dir})
	assert.True(t, mayUse(t, r, app, "loaded"), "it was there before")
	assert.False(t, mayUse(t, r, app, "new", own), "the killed pull may have brought it")
	pull(t, r, app, "new", "", nil, errors.New("401"))
	assert.False(t, mayUse(t, r, app, "new", own), "another failure says nothing of the killed pull")
	pull(t, r, app, "new", "new", &own, nil)
	assert.True(t, mayUse(t, r, app, "new", own))
	assert.False(t, mayUse(t, r, app, "new", other))
	assert.True(t, mayUse(t, r, app, "loaded"))

	for _, end := range []error{context.Canceled, fmt.Errorf("pull: %w", context.DeadlineExceeded)} {
		pull(t, r, "a.example/b", "", "", nil, end)
		assert.False(t, mayUse(t, r, "a.example/b", "id"), "the runtime may complete the pull")
	}
	assert.True(t, mayUse(t, r, "a.example/c", "id"))
}

// A failed pull of one pod says nothing of the pull of another pod in progress.
func TestConcurrentPulls(t *testing.T) {
	r := open(t, pullrecords.Options{})
	first, err := r.Begin(app, "")
	require.NoError(t, err)
	pull(t, r, app, "", "", nil, errors.New("401"))
	assert.False(t, mayUse(t, r, app, "id"), "the image of the first pull, before its record")
	require.NoError(t, first("id", &own, nil))
	assert.False(t, mayUse(t, r, app, "id"))
	assert.True(t, mayUse(t, r, app, "id", own))
}

// Each look finds the note or the record of a pull that ends. 32 goroutines look, so that some of them are
// interrupted between both.
func TestLooksDuringPulls(t *testing.T) {
	r := open(t, pullrecords.Options{})
	for i := range 100 {
		id := fmt.Sprint("id", i)
		end, err := r.Begin(app, "")
		require.NoError(t, err)
		var found, ended atomic.Bool
		var lookers sync.WaitGroup
		for range 32 {
			lookers.Go(func() {
				for !ended.Load() {
					may, err := r.MayUse(app, id, func() []runtime.ImageAuth { return nil })
					found.Store(found.Load() || may || err != nil)
				}
			})
		}
		require.NoError(t, end(id, &own, nil))
		ended.Store(true)
		lookers.Wait()
		require.False(t, found.Load(), "pull %d", i)
	}
}

func TestPrune(t *testing.T) {
	r := open(t, pullrecords.Options{})
	for _, id := range []string{"a", "b"} {
		pull(t, r, app, "", id, &own, nil)
	}
	require.NoError(t, r.Prune(time.Now().Add(-time.Hour), nil), "newer than the list")
	assert.False(t, mayUse(t, r, app, "a"))
	require.NoError(t, r.Prune(time.Now().Add(time.Hour), []string{"a"}))
	assert.False(t, mayUse(t, r, app, "a"), "in use, or not: its image is there")
	assert.True(t, mayUse(t, r, app, "b"), "removed, and loaded again")
}

// A damaged record is for nobody, until the next pull.
func TestDamage(t *testing.T) {
	for _, content := range []string{"", "{", `"x"`, "null", `{"Image": "other", "Salt": "eA==", "Repositories": {"registry.example/team/app": {"Everybody": true}}}`} {
		dir := t.TempDir()
		r := open(t, pullrecords.Options{Dir: dir})
		pull(t, r, app, "", "id", &own, nil)
		files, err := filepath.Glob(filepath.Join(dir, "pulled", "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.WriteFile(files[0], []byte(content), 0o600))
		assert.False(t, mayUse(t, r, app, "id", own), content)
		pull(t, r, app, "id", "id", &own, nil)
		assert.True(t, mayUse(t, r, app, "id", own), content)
	}
}

// A full disk prevents a pull, and makes a pull fail whose record is missing.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	r := open(t, pullrecords.Options{Dir: dir})
	end, err := r.Begin(app, "")
	require.NoError(t, err)
	for _, folder := range []string{"pulled", "pulling"} {
		require.NoError(t, os.Rename(filepath.Join(dir, folder), filepath.Join(dir, folder+"-away")))
	}
	require.ErrorContains(t, end("id", &own, nil), "the record of pulls of id")
	_, err = r.Begin("a.example/b", "")
	require.ErrorContains(t, err, "the record of pulls of a.example/b")
	for _, folder := range []string{"pulled", "pulling"} {
		require.NoError(t, os.Rename(filepath.Join(dir, folder+"-away"), filepath.Join(dir, folder)))
	}
	assert.False(t, mayUse(t, r, app, "id"))
}

// 2,000 random pulls, restarts and collections: nobody may use an image whose pull needed credentials without them,
// and everybody who has pulled an image may use it while it stays.
func TestRandomPulls(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	r := open(t, pullrecords.Options{Dir: dir})
	auths := []runtime.ImageAuth{own, other, {Username: "c", Secret: "c/c/c"}}
	present, name, may := map[string]bool{}, map[string]string{}, map[string]map[string]bool{}
	for step := range 2_000 {
		n := fmt.Sprintf("r.example/private/%d", random.IntN(3))
		auth := auths[random.IntN(len(auths))]
		switch id := n + strings.Repeat("+", random.IntN(3)); random.IntN(10) {
		case 0:
			r = open(t, pullrecords.Options{Dir: dir})
		case 1: // a collection removes the image
			delete(present, name[n])
			delete(may, name[n])
			delete(name, n)
			var left []string
			for id := range present {
				left = append(left, id)
			}
			require.NoError(t, r.Prune(time.Now().Add(time.Hour), left))
		case 2: // killed during a pull, with or without the image
			_, err := r.Begin(n, name[n])
			require.NoError(t, err)
			r = open(t, pullrecords.Options{Dir: dir})
			if !present[id] {
				present[id], name[n] = true, id
			}
		case 3:
			pull(t, r, n, name[n], "", nil, []error{errors.New("401"), context.Canceled}[random.IntN(2)])
		case 4, 5:
			pull(t, r, n, name[n], id, &auth, nil)
			if present[id], name[n] = true, id; may[id] == nil {
				may[id] = map[string]bool{}
			}
			may[id][auth.Secret] = true
		default:
			if id := name[n]; id != "" {
				require.Equal(t, may[id][auth.Secret], mayUse(t, r, n, id, auth), "step %d: %s %s %s", step, n, id, auth.Secret)
			}
		}
	}
}
