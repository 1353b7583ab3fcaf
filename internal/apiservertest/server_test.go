// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var shared Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

func TestServer(t *testing.T) {
	s := shared.Get(t)
	core, err := s.Core()
	require.NoError(t, err)
	_, err = s.CreateNode(t.Context(), "n1")
	require.NoError(t, err)
	_, err = core.Pods("default").Create(t.Context(), Pod("default", "p1", "n1"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Compact(t.Context()))
	require.NoError(t, s.Restart(t.Context()))
	_, err = core.Pods("default").Get(t.Context(), "p1", metav1.GetOptions{})
	require.NoError(t, err)
}
