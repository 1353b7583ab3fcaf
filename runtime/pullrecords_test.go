// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/pullrecords"
)

// tenants gives each namespace a Secret with the namespace as the user, and none to the namespace poor.
func tenants(_ context.Context, pod *v1.Pod, _ string) ([]runtime.ImageAuth, error) {
	if pod.Namespace == "poor" {
		return nil, nil
	}
	return []runtime.ImageAuth{{Username: pod.Namespace, Password: "p", Secret: pod.Namespace + "/pull/1"}}, nil
}

// An image that was pulled with a Secret is only for pods that could pull it, too.
func TestAPrivateImageStaysPrivate(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(n *node) {
		records, err := pullrecords.Open(pullrecords.Options{Dir: dir})
		require.NoError(n, err)
		r := n.withImages(runtime.Options{Keyring: tenants, PullRecords: records})
		ensure := func(namespace, image string, policy v1.PullPolicy) error {
			pod := newPod()
			pod.Namespace = namespace
			n.pass(time.Minute) // beyond the back-off of the pod
			r.pulls = nil
			_, err := n.manager.EnsureImage(n.Context(), runtime.ImageRequest{Pod: pod, Image: image, Policy: policy})
			synctest.Wait()
			return err
		}
		require.NoError(n, ensure("shop", "private", v1.PullIfNotPresent))
		require.Equal(n, []string{"private:latest shop"}, r.pulls)
		require.NoError(n, ensure("shop", "private", v1.PullNever))
		require.Empty(n, r.pulls)

		r.failWith = []error{errors.New("401"), errors.New("403")}
		require.ErrorIs(n, ensure("poor", "private", v1.PullIfNotPresent), runtime.ErrImagePull)
		require.Equal(n, []string{"private:latest anonymous"}, r.pulls)
		err = ensure("blog", "private", v1.PullNever)
		require.ErrorIs(n, err, runtime.ErrImageNeverPull)
		require.ErrorContains(n, err, "is present with pull policy of Never, but")
		require.Empty(n, r.pulls)
		r.failWith = nil
		require.NoError(n, ensure("blog", "private", v1.PullIfNotPresent), "the registry lets it pull")
		require.NoError(n, ensure("blog", "private", v1.PullNever), "and it need not ask again")

		r.here["loaded:latest"] = true
		require.NoError(n, ensure("poor", "loaded", v1.PullNever), "preloaded")
		require.NoError(n, ensure("poor", "open", v1.PullIfNotPresent))
		require.NoError(n, ensure("blog", "open", v1.PullNever), "pulled without credentials")
		require.NoError(n, ensure("blog", "loaded", v1.PullAlways))
		require.NoError(n, ensure("poor", "loaded", v1.PullNever), "still preloaded")
	})
}

// Without a record there is no pull, and without the record of a pull no container.
func TestPullsThatCannotBeRecorded(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(n *node) {
		records, err := pullrecords.Open(pullrecords.Options{Dir: dir})
		require.NoError(n, err)
		r := n.withImages(runtime.Options{PullRecords: records})
		require.NoError(n, os.RemoveAll(dir+"/pulling"))
		result := n.sync(newPod())
		require.ErrorIs(n, result.Err(), runtime.ErrImagePull)
		require.ErrorContains(n, result.Err(), "the record of pulls of img-c:latest")
		require.Empty(n, r.pulls)
		require.NoError(n, os.Mkdir(dir+"/pulling", 0o700))
		require.NoError(n, os.RemoveAll(dir+"/pulled"))
		n.pass(time.Minute)
		result = n.sync(newPod())
		require.ErrorIs(n, result.Err(), runtime.ErrImagePull)
		require.Len(n, r.pulls, 1)
		require.NoError(n, os.Mkdir(dir+"/pulled", 0o700))
		n.pass(time.Minute)
		require.NoError(n, n.sync(newPod()).Err())
		require.Len(n, r.pulls, 2, "the image is there, and for nobody without a record")
	})
}
