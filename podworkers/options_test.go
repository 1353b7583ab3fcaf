// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestNewNamesTheBadField(t *testing.T) {
	syncer := &funcSyncer{}
	for field, o := range map[string]Options{
		"Options.Syncer":           {},
		"Options.Backoff":          {Syncer: syncer, Backoff: -1},
		"Options.TransientBackoff": {Syncer: syncer, TransientBackoff: -1},
	} {
		w, err := New(o)
		require.ErrorContains(t, err, field)
		require.Nil(t, w)
	}
}

func TestOptionsDefaults(t *testing.T) {
	o, err := Options{Syncer: &funcSyncer{}}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, time.Minute, o.ResyncInterval)
	require.Equal(t, 10*time.Second, o.Backoff)
	require.Equal(t, time.Second, o.TransientBackoff)
	require.NotNil(t, o.Jitter)
	require.NotNil(t, o.ExclusiveKey)
	require.NotNil(t, o.Logger)

	o, err = Options{Syncer: &funcSyncer{}, ResyncInterval: -1}.withDefaults()
	require.NoError(t, err)
	require.Negative(t, o.ResyncInterval, "off stays off")
}

func TestStaticPodNameIsTheDefaultKey(t *testing.T) {
	key, ok := staticPodName(testPod("a", static("web")))
	require.True(t, ok)
	require.Equal(t, "web_ns", key)

	_, ok = staticPodName(testPod("a"))
	require.False(t, ok, "no annotation")
	_, ok = staticPodName(testPod("a", static("web"), func(pod *v1.Pod) {
		pod.Annotations[configSourceAnnotation] = configSourceAPI
	}))
	require.False(t, ok, "from the API server")
}
