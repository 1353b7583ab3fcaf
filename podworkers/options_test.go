// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

func TestNewNamesTheBadField(t *testing.T) {
	w, err := New(Options{})
	require.ErrorContains(t, err, "Options.Syncer")
	require.Nil(t, w)
}

func TestExclusiveKeyIsTheNameOfAStaticPod(t *testing.T) {
	require.Equal(t, "web_ns", exclusiveKey(testPod("a", static("web"))))
	require.Empty(t, exclusiveKey(nil), "an orphan")
	require.Empty(t, exclusiveKey(testPod("a")), "no annotation")
	require.Empty(t, exclusiveKey(testPod("a", static("web"), func(pod *v1.Pod) {
		pod.Annotations[podfacts.AnnotationSource] = podfacts.SourceAPI
	})), "from the API server")
}
