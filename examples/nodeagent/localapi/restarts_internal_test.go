// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

// kinds receives the kinds of changes, or fails.
type kinds struct {
	got []string
	err error
}

func (k *kinds) Submit(_ context.Context, c podconfig.Change) error {
	if k.err == nil {
		k.got = append(k.got, c.Kind().String())
	}
	return k.err
}

// Of two requests for a pod at once, each sees the end of the pod: it comes back after the second release.
func TestAPodComesBackAfterTheLastRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var restarts Restarts
		source := restarts.Sources(podconfig.SourceFunc("file", func(ctx context.Context, _ podconfig.Sink) error {
			<-ctx.Done()
			return nil
		}))[0]
		out := &kinds{}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go func() { assert.NoError(t, source.Run(ctx, out)) }()
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1", Annotations: map[string]string{"kubernetes.io/config.source": "file"}}}

		first, err := restarts.take(ctx, pod)
		require.NoError(t, err)
		second, err := restarts.take(ctx, pod)
		require.NoError(t, err)
		first()
		synctest.Wait()
		require.Equal(t, []string{"Remove", "Remove"}, out.got)
		second()
		synctest.Wait()
		require.Equal(t, []string{"Remove", "Remove", "Upsert"}, out.got)

		// A pod that could not be removed is not withheld.
		out.got, out.err = nil, errors.New("no room")
		_, err = restarts.take(ctx, pod)
		require.ErrorIs(t, err, out.err)
		out.err = nil
		third, err := restarts.take(ctx, pod)
		require.NoError(t, err)
		third()
		synctest.Wait()
		require.Equal(t, []string{"Remove", "Upsert"}, out.got)
	})
}
